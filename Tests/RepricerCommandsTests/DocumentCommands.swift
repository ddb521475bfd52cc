@testable import RepricerCommands

/// The commands that a document shows, and whether they would run as they stand there.
struct DocumentCommands {
    /// What the examples call themselves, by their database user.
    private static let people = ["ana", "ben", "service", "fin", "owner"]

    struct Shown: Equatable {
        let line: Int
        let text: String
        /// Typed as a whole in a block; else named in a sentence, where a part of it may be meant.
        let isWhole: Bool
    }

    let shown: [Shown]

    init(markdown: String) {
        var shown: [Shown] = []
        var fence: Substring?
        var continued = ""
        for (index, line) in markdown.split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            let trimmed = line.trimmingPrefix { $0 == " " }
            if trimmed.hasPrefix("```") {
                fence = fence == nil ? trimmed.dropFirst(3) : nil
                continue
            }
            guard let fence else {
                shown += Self.spans(line).map { Shown(line: index + 1, text: $0, isWhole: false) }
                continue
            }
            let isConsole = fence == "console"
            guard fence == "sh" || isConsole else { continue }
            if isConsole && continued.isEmpty && !trimmed.hasPrefix("$ ") { continue }
            let typed = isConsole && continued.isEmpty ? trimmed.dropFirst(2) : trimmed
            continued += typed
            if continued.hasSuffix("\\") {
                continued.removeLast()
                continue
            }
            shown.append(Shown(line: index + 1, text: continued, isWhole: true))
            continued = ""
        }
        self.shown = shown
    }

    /// What stands between backticks of one line.
    private static func spans(_ line: Substring) -> [String] {
        let parts = line.split(separator: "`", omittingEmptySubsequences: false)
        guard parts.count % 2 == 1 else { return [] }
        return parts.indices.filter { $0 % 2 == 1 }.map { String(parts[$0]) }
    }

    /// Each fault as `LINE: what is wrong`.
    var faults: [String] {
        shown.flatMap { one in
            (one.isWhole ? Self.faults(ofShell: one.text) : Self.faults(ofSpan: one.text))
                .map { "\(one.line): \(one.text): \($0)" }
        }
    }

    // MARK: In a block

    private static func faults(ofShell line: String) -> [String] {
        // A function says what a word means, and is no command.
        line.contains("() {")
            ? []
            : commands(ofShell: line).compactMap { words -> String? in
                // Settings before a command are its environment.
                let words = words.drop { $0.wholeMatch(of: /[A-Z_0-9]+=.*/) != nil }
                guard let first = words.first,
                    first == "repricer" || first.hasSuffix("/repricer") || people.contains(first)
                else { return nil }
                let arguments = words.dropFirst().filter { $0 != "$@" }
                var parser = ArgumentParser(
                    commands: RepricerCommands.all, arguments: Array(arguments))
                do {
                    _ = try parser.parse()
                    return nil
                } catch let fault as ArgumentParser.Fault {
                    return fault.error.message
                } catch {
                    return "\(error)"
                }
            }
    }

    /// The simple commands of a line of shell, without what is written to where.
    static func commands(ofShell line: String) -> [[String]] {
        var commands: [[String]] = [[]]
        var word: String?
        var quote: Character?
        var skipsNext = false
        func end() {
            guard let finished = word else { return }
            word = nil
            if skipsNext {
                skipsNext = false
            } else {
                commands[commands.count - 1].append(finished)
            }
        }
        for character in line {
            if let open = quote {
                if character == open {
                    quote = nil
                } else {
                    word = (word ?? "") + String(character)
                }
                continue
            }
            switch character {
            case "'", "\"":
                quote = character
                word = word ?? ""
            case " ": end()
            case "#" where word == nil: return commands.filter { !$0.isEmpty }
            case "|", ";", "&", "(", ")":
                end()
                commands.append([])
            case ">", "<":
                // A number before it is the stream.
                if word == "2" { word = nil } else { end() }
                skipsNext = true
            default: word = (word ?? "") + String(character)
            }
        }
        end()
        return commands.filter { !$0.isEmpty }
    }

    // MARK: In a sentence

    private static func faults(ofSpan text: String) -> [String] {
        // What is left out may be anything: such a text quotes what a command prints.
        guard !text.contains("…") else { return [] }
        let isNamed = text.hasPrefix("repricer ")
        let words = text.replacing(/[\[\],]/, with: " ").split(separator: " ").map(String.init)
        let typed = Array(isNamed ? words.dropFirst() : words[...])
        let nouns = Set(RepricerCommands.all.compactMap { $0.path.first })
        guard let first = typed.first else { return [] }
        guard nouns.contains(first) else {
            // COMMAND stands for any; an option is one of all commands.
            let isAny = !isNamed || first.first?.isUppercase == true || first.hasPrefix("-")
            return isAny ? [] : ["there is no such command"]
        }
        let candidates = RepricerCommands.all.filter { typed.starts(with: $0.path) }
        guard let command = candidates.max(by: { $0.path.count < $1.path.count }) else {
            // A noun by itself stands for its verbs; one word is a word of English, too.
            let verbs = typed.count > 1 && typed[1].first?.isLowercase == true ? typed[1] : ""
            let known = verbs.split(separator: "|").allSatisfy { verb in
                RepricerCommands.all.contains { $0.path == [first, String(verb)] }
            }
            return known ? [] : ["there is no such command"]
        }
        let options = typed.dropFirst(command.path.count).filter { $0.hasPrefix("--") }
        return options.compactMap { option -> String? in
            let name = String(option.dropFirst(2).prefix { $0 != "=" && $0 != "|" })
            let isKnown = command.allOptions.contains { $0.name == name } || name == "help"
            return isKnown || name.isEmpty ? nil : "\(command.name) has no option --\(name)"
        }
    }
}
