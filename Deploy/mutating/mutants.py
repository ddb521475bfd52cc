"""Finds the places of the consent rules that can be broken, and how."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = [
    "ConsentRules.swift", "IncreaseCase.swift", "EarlierIncrease.swift", "OfferConversion.swift",
    "RenewalCalendar.swift", "RenewalSearch.swift", "RowGroup.swift", "WaitingIncreases.swift",
    "ShownIncreases.swift", "RuleCourse.swift", "Timeline.swift", "AtRisk.swift", "ThresholdInForce.swift", "ThresholdEstimator.swift", "RowCase.swift",
    "Renewals.swift", "JudgeForSending.swift", "RulesInForce.swift", "Scenario/LargestWithoutConsent.swift",
]
# What a line says outside its string literals, what replaces it.
SWAPS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r"(?<!func) == ", " != "),
    (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r" - ", " + "), (r" \+ ", " - "),
    (r" \* ", " / "), (r" / ", " * "), (r" % ", " / "), (r" \+= ", " -= "), (r" \*= ", " += "),
    (r"(?<=[\w)])\.\.\.(?=[\w(])", "..<"), (r"(?<=[(: ])-(?=[A-Za-z(])", ""), (r"(?<![\w)\]])!(?=[\w(])", ""),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\.min\(\)", ".max()"), (r"\.max\(\)", ".min()"),
    (r"\bmax\(", "min("), (r"\bmin\(", "max("), (r"\.first\b", ".last"), (r"\.last\b", ".first"),
    (r"\.firstIndex \{", ".lastIndex {"), (r"\.reversed\(\)", ""), (r"\.sorted\(\)", ""),
    (r"\.allSatisfy\b", ".contains"), (r"\bcontinue\b", "break"),
    (r"\? ([\w.$]+(?:\(\w*\))?) : ([\w.$]+(?:\(\w*\))?)", r"? \2 : \1"),
    (r"\.required\b", ".notRequired"), (r"\.notRequired\b", ".notKnown"), (r"\.notKnown\b", ".notRequired"),
    (r"\.week\b", ".month"), (r"\.month\b", ".week"), (r"\.year\b", ".month"), (r"\.annual\b", ".nonannual"),
    (r"\.apple\b", ".estimated"), (r"\.increase\b(?! *[:?])", ".decrease"), (r"\.sandbox\b", ".production"),
    (r"\.production\b", ".sandbox"), (r"\.distantPast\b", ".distantFuture"),
    # A whole statement that stands on one line.
    (r"^ +(?!self\.)[a-z][\w.\[\]]*(?: [+*]?= |\.(?:append|add|removeAll|insert)\b).*$", ""),
]
NUMBER = re.compile(r"(?<![\w.\"$])(\d[\d_]*)(?![\w.\"%])")
RANGE_END = re.compile(r"(?<=\.\.\.|\.\.<)(\d[\d_]*)")
CONDITION = re.compile(r"\b(?:guard|if|while) (.+?)(?= else \{| \{$|,$)|^ +(?! *guard\b)(.+?)(?= else \{$)")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
CODE_WORD = re.compile(r'"[A-Z]{3,}"')
class Mutant:
    def __init__(self, number, file, line, offset, code, start, end, new):
        # Its number, by which it is chosen when the tests run, and its place in the file.
        self.number, self.start, self.end = number, offset + start, offset + end
        self.file, self.line, self.column = file, line, start + 1
        self.old, self.new = code[start:end], new
        self.changed = code[:start] + new + code[end:]

    @property
    def key(self):
        """What it makes of its line, by which the list of harmless ones knows it."""
        return f"{self.file}: {self.changed.strip() or 'without ' + self.old.strip()}"

    def __str__(self):
        return f"{self.file}:{self.line}:{self.column}: {self.old.strip()} -> {self.new.strip() or 'nothing'}"


def conditions(code):
    """Where the conditions of a guard, an if or a loop stand that can be negated."""
    for match in CONDITION.finditer(code):
        group = 1 if match.group(1) else 2
        start, depth = match.start(group), 0
        for place in range(match.start(group), match.end(group) + 1):
            character = code[place] if place < match.end(group) else ","
            depth += (character in "([{") - (character in ")]}")
            if character == "," and depth == 0:
                text = code[start:place]
                if text.strip() and not re.search(r"\b(let|case|var|where)\b|[{}]", text):
                    yield start + len(text) - len(text.lstrip()), place
                start = place + 1


def blanked(code):
    """The code with the text of its literals struck out."""
    return LITERAL.sub(lambda match: '"' + "~" * (len(match.group()) - 2) + '"', code)


def is_whole(code):
    """Whether a line leaves no bracket open."""
    return all(code.count(a) == code.count(b) for a, b in ["()", "[]", "{}"])


def mutants():
    """All of them, in the order of the files."""
    found, seen = [], set()

    def add(name, number, offset, code, start, end, new):
        mutant = Mutant(len(found) + 1, name, number, offset, code, start, end, new)
        if mutant.changed != code and (name, number, mutant.changed) not in seen:
            seen.add((name, number, mutant.changed))
            found.append(mutant)

    for name in FILES:
        path = ROOT / "Sources/Pricing" / name
        after = 0
        for number, text in enumerate(path.read_text().split("\n"), 1):
            offset, after = after, after + len(text) + 1
            # Literals keep their places, and nothing is found inside them.
            code = blanked(text).split("//")[0]
            text = text[: len(code)]
            if code.strip().startswith(("import", "internal import", "///", "@")):
                continue
            for old, new in SWAPS:
                for match in re.finditer(old, code):
                    if new or not old.startswith("^") or is_whole(code):
                        # The replacement is taken from the true text: it may hold a literal.
                        add(name, number, offset, text, match.start(), match.end(), match.expand(new))
            for pattern in [NUMBER, RANGE_END]:
                for match in pattern.finditer(code):
                    value = int(match.group(1).replace("_", ""))
                    add(name, number, offset, text, match.start(), match.end(), str(value + 1))
                    if value > 1:
                        add(name, number, offset, text, match.start(), match.end(), str(value - 1))
            for start, end in conditions(code):
                add(name, number, offset, text, start, end, f"!({text[start:end]})")
            for match in CODE_WORD.finditer(text):
                add(name, number, offset, text, match.start(), match.end(), '"XXX"')
    return found
