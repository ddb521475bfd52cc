"""Rewrites the sources so that one build holds every mutant, and the environment chooses one when the tests run.

A body of a function, an initialiser or a property becomes a switch over the number of the mutant. Each case holds the
whole body with one change in it, and the default the body as it stands. A value outside bodies, as that of a stored
property, is chosen by a call. So a mutant is any change of text that the compiler takes.
"""
import re

from mutants import blanked

SUPPORT = """internal import Foundation

/// Which change of the rules is in force in this process; 0 for none.
package enum Mutant {
    package static let number =
        ProcessInfo.processInfo.environment["REPRICER_MUTANT"].flatMap { Int($0) } ?? 0

    package static func choose<Value>(
        _ number: Int, _ changed: @autoclosure () -> Value, else original: @autoclosure () -> Value
    ) -> Value {
        Mutant.number == number ? changed() : original()
    }
}
"""
KEYWORD = re.compile(r"\b(struct|class|enum|extension|protocol|actor|func|init|deinit|subscript|var|let|case)\b")
TYPES = {"struct", "class", "enum", "extension", "protocol", "actor"}


def code_of(text):
    """The text without comments and literals, each character at its place."""
    lines = []
    for line in text.split("\n"):
        code = blanked(line)
        cut = code.find("//")
        lines.append(code if cut < 0 else code[:cut] + " " * (len(code) - cut))
    return "\n".join(lines)


def closing(code, start):
    """The place of the brace that closes the one at `start`."""
    depth = 0
    for place in range(start, len(code)):
        depth += (code[place] == "{") - (code[place] == "}")
        if depth == 0:
            return place
    raise ValueError("a brace is left open")


def bodies(code):
    """Where the bodies stand, without their braces, and whether each is an initialiser's."""
    place, since = 0, 0
    while (place := code.find("{", place)) >= 0:
        words = list(KEYWORD.finditer(code, since, place))
        kind = words[-1].group() if words else None
        is_value = kind in ("var", "let", "case") and "=" in code[words[-1].end():place]
        if kind in TYPES:
            since = place = place + 1
            continue
        end = closing(code, place)
        if kind and not is_value:
            if re.match(r"\s*(get|set|willSet|didSet)\b", code[place + 1:end]):
                raise ValueError("a property with accessors can't be rewritten")
            yield place + 1, end, kind == "init"
            since = end + 1
        place = end + 1


def value(code, place):
    """The value of a stored property or a parameter around a place outside bodies; None where there is none."""
    line = code.rfind("\n", 0, place) + 1
    end = code.find("\n", place)
    start = code.rfind(" = ", line, place + 1)
    if start < 0:
        return None
    depth = 0
    for at in range(start + 3, end):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth < 0 or (depth == 0 and code[at] == ","):
            return start + 3, at
    return start + 3, end


class File:
    """One source file with its mutants."""

    def __init__(self, text, mutants):
        self.text, self.places = text, {}
        code = code_of(text)
        inside = list(bodies(code))
        for mutant in mutants:
            spans = [span for span in inside if span[0] <= mutant.start and mutant.end <= span[1]]
            span = spans[0] if spans else value(code, mutant.start)
            if span is None:
                raise ValueError(f"{mutant} stands in no body and in no value")
            self.places.setdefault(span, []).append(mutant)

    def unset(self):
        """The numbers of those that leave a stored property without a value, which never compiles.

        The compiler says so at the end of the initialiser, and not at the mutant.
        """
        for span, mutants in self.places.items():
            for m in mutants if span[2:] == (True,) else []:
                name = re.match(r"\s*(\w+) = ", m.old)
                if name and not m.new and re.search(
                        rf"^ +(?:\w+ )*(?:let {name[1]}: .+|var {name[1]}: [^=\n]*[^?=\n])$", self.text, re.M):
                    yield m.number

    def rewritten(self, left_out):
        """The text with all mutants but some, and of each line of it the number of its mutant or None."""
        pieces, at = [], 0
        for span, mutants in sorted(self.places.items()):
            start, end, is_body = *span[:2], len(span) == 3
            pieces.append((None, self.text[at:start]))
            at = end
            original = self.text[start:end]
            kept = [m for m in mutants if m.number not in left_out]
            if is_body and kept:
                pieces.append((None, "\nswitch Mutant.number {\n"))
                for m in kept:
                    body = self.text[start:m.start] + m.new + self.text[m.end:end]
                    # A case is never empty.
                    body = body if code_of(body).strip() else "break"
                    pieces.append((m.number, f"case {m.number}:\n{body}\n"))
                pieces.append((None, f"default:\n{original}\n}}\n"))
            elif is_body:
                pieces.append((None, original))
            else:
                for m in kept:
                    changed = self.text[start:m.start] + m.new + self.text[m.end:end]
                    pieces.append((m.number, f"\nMutant.choose(\n{m.number}, {changed}\n"))
                    pieces.append((None, ", else: "))
                pieces.append((None, original + ")" * len(kept)))
        pieces.append((None, self.text[at:]))
        owners = [None]
        for number, text in pieces:
            owners += [number] * text.count("\n")
            if number is not None and text.count("\n"):
                # The line after the last break belongs to what follows.
                owners[-text.count("\n") - 1:] = [number] * text.count("\n") + [None]
        return "".join(text for _, text in pieces), owners
