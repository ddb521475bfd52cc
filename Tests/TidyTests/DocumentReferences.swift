import Foundation

/// What documents refer to: links, paths, metrics, lines of the log.
enum DocumentReferences {
    /// Files and headings that a document links to; not other sites.
    static func links(_ markdown: String) -> [String] {
        markdown.matches(of: /\]\(([^)\s]+)\)/).map { String($0.1) }
            .filter { !$0.contains("://") }
    }

    /// The names under which a document's headings can be linked to.
    static func anchors(_ markdown: String) -> Set<String> {
        var isCode = false
        var anchors: Set<String> = []
        for line in markdown.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.trimmingPrefix(/\s*/).hasPrefix("```") { isCode.toggle() }
            guard !isCode, let heading = line.firstMatch(of: /^#+ (.+)/)?.1 else { continue }
            let kept = heading.lowercased().filter { character in
                character.isLetter || character.isNumber || " -_".contains(character)
            }
            anchors.insert(kept.replacing(" ", with: "-"))
        }
        return anchors
    }

    /// Links of the document at `path` that lead nowhere.
    static func broken(
        _ links: [String], of path: String, among paths: [String], anchors: (String) -> Set<String>
    ) -> [String] {
        links.filter { link in
            let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
            let file = parts.first.map(String.init) ?? ""
            let target = file.isEmpty ? path : resolved(file, from: path)
            guard exists(target, among: paths) else { return true }
            guard parts.count == 2, let anchor = parts.last.map(String.init) else { return false }
            return !anchors(target).contains(anchor)
        }
    }

    private static func resolved(_ link: String, from path: String) -> String {
        var folders = path.split(separator: "/").dropLast()
        for part in link.split(separator: "/") {
            switch part {
            case ".": continue
            case "..": folders = folders.dropLast()
            case let name: folders.append(name)
            }
        }
        return folders.joined(separator: "/")
    }

    /// Whether a file or a folder is there.
    static func exists(_ path: String, among paths: [String]) -> Bool {
        paths.contains { $0 == path || $0.hasPrefix(path + "/") }
    }

    /// The rows of the tables of threats that promise something (what somebody cannot do, or that they can do nothing) and whose
    /// last cell names no test and no command of ours, or one that does not exist.
    static func promisesWithoutATest(
        _ markdown: String, tests: Set<String>, paths: [String]
    ) -> [String] {
        var found: [String] = []
        var isHead = true
        for line in markdown.split(separator: "\n", omittingEmptySubsequences: false) {
            guard line.hasPrefix("|") else {
                isHead = true
                continue
            }
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst()
                .dropLast().map { $0.trimmingCharacters(in: .whitespaces) }
            defer { if line.hasPrefix("| ---") { isHead = false } }
            guard !isHead, cells.count == 4, let last = cells.last else { continue }
            guard !cells[2].isEmpty || cells[1].hasPrefix("nothing") else { continue }
            let names = last.matches(of: /`([^`]+)`/).map { String($0.1) }
            let isHeld = names.allSatisfy {
                tests.contains($0) || $0.hasPrefix("Deploy/") && paths.contains($0)
            }
            if names.isEmpty || !isHeld { found.append(String(line)) }
        }
        return found
    }

    /// Paths from the top that a document names in backticks. One with a part in capitals is a pattern.
    static func paths(_ markdown: String) -> Set<String> {
        let named = markdown.matches(of: /`((?:Sources|Tests|Deploy|Migrations)\/[^`\s]+)`/)
            .map { $0.1.split(separator: "/") }
            .filter { parts in
                !parts.contains { part in
                    part.contains(/[*…]|NNNN/)
                        || part.count > 1 && part.allSatisfy(\.isUppercase)
                }
            }
        return Set(named.map { $0.joined(separator: "/") })
    }

    /// The files in the table below a heading, in their order; those without a folder of the top are in `Sources`.
    static func road(_ markdown: String, below heading: String) -> [String] {
        let sections = markdown.components(separatedBy: "\n## ")
        return (sections.first { $0.hasPrefix(heading) } ?? "").split(separator: "\n").filter {
            $0.hasPrefix("| ")
        }.flatMap { row in
            row.matches(of: /`([^`]+\.(?:swift|sql))`/).map { String($0.1) }
        }.map { $0.hasPrefix("Migrations/") ? $0 : "Sources/\($0)" }
    }

    /// The messages that a source logs as errors and warnings, those of `Rounds` too.
    static func alarms(_ source: SwiftText) -> Set<String> {
        var alarms: Set<String> = []
        for index in source.tokens.indices {
            let next = source.token(index + 1)
            if source.tokens[index].isCode("failure"), next?.isCode(":") ?? false,
                let message = source.token(index + 2), message.kind == .string
            {
                alarms.insert(message.text)
            }
            guard ["error", "warning"].contains(where: source.tokens[index].isCode),
                source.token(index - 1)?.isCode(".") ?? false,
                source.token(index - 2)?.isCode("log") ?? false, next?.isCode("(") ?? false
            else { continue }
            // What follows in brackets are the fields.
            let arguments = source.tokens[(index + 1)...source.close(of: index + 1)]
            let message = arguments.prefix { !$0.isCode("[") }
            alarms.formUnion(message.filter { $0.kind == .string }.map(\.text))
        }
        return alarms
    }

    /// The metrics that a source describes or writes.
    static func metrics(_ source: SwiftText) -> Set<String> {
        let verbs = [
            "declareCounter", "declareGauge", "declareTiming", "increment", "set", "counter",
            "timing",
        ]
        return Set(
            source.tokens.indices.compactMap { index in
                guard verbs.contains(where: source.tokens[index].isCode),
                    source.token(index + 1)?.isCode("(") ?? false,
                    let name = source.token(index + 2), name.kind == .string,
                    name.text.hasPrefix("repricer_")
                else { return nil }
                return name.text
            })
    }

    /// The metrics that a document names; roles of the database begin alike.
    static func metrics(named markdown: String) -> Set<String> {
        let roles: Set = [
            "repricer_pricing", "repricer_service", "repricer_finance",
            "repricer_finance_lead", "repricer_owner",
        ]
        // Of a histogram Prometheus keeps three series.
        return Set(
            markdown.matches(of: /repricer_[a-z][a-z_]*/).map {
                String($0.0).replacing(/_seconds_(bucket|sum|count)$/, with: "_seconds")
            }
        ).subtracting(roles)
    }

    /// The alerts of a file of rules, each with the entry of the runbook that it leads to.
    static func alerts(ofRules rules: String) -> [String: String] {
        let found = rules.split(separator: "- alert: ").dropFirst().compactMap { rule in
            rule.firstMatch(of: /RUNBOOK\.md#([a-z0-9-]+)/).map {
                (String(rule.prefix { !$0.isWhitespace }), String($0.1))
            }
        }
        return Dictionary(found) { first, _ in first }
    }

    /// The alerts that entries name in their line `**Alert**`, each with the anchor of its entry.
    static func alerts(ofRunbook runbook: String) -> [String: String] {
        var found: [String: String] = [:]
        var anchor = ""
        for line in runbook.split(separator: "\n") {
            if line.hasPrefix("#") { anchor = anchors(String(line)).first ?? "" }
            guard line.hasPrefix("- **Alert**:") else { continue }
            for match in line.matches(of: /`([A-Za-z]+)`/) { found[String(match.1)] = anchor }
        }
        return found
    }

    struct Panel {
        var title: String
        var description: String
        var unit: String
        var queries: [String]
    }

    /// The panels of a Grafana dashboard that ask something; a row does not.
    static func panels(_ json: String) throws -> [Panel] {
        let dashboard = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
        let panels = dashboard?["panels"] as? [[String: Any]] ?? []
        return panels.filter { $0["type"] as? String != "row" }.map { panel in
            let config = panel["fieldConfig"] as? [String: Any]
            let defaults = config?["defaults"] as? [String: Any]
            let targets = panel["targets"] as? [[String: Any]] ?? []
            return Panel(
                title: panel["title"] as? String ?? "?",
                description: panel["description"] as? String ?? "",
                unit: defaults?["unit"] as? String ?? "",
                queries: targets.compactMap { $0["expr"] as? String })
        }
    }

    /// The log lines that the runbook's first table quotes. One that ends in `…` is the beginning of a line.
    static func logLines(_ runbook: String) -> [String] {
        let rows = runbook.split(separator: "\n")
        guard let start = rows.firstIndex(where: { $0.hasPrefix("| **Log lines**") }) else {
            return []
        }
        return rows[(start + 1)...].prefix { $0.hasPrefix("| `") }.flatMap { row in
            row.dropFirst(2).prefix { $0 != "|" }.matches(of: /`([^`]+)`/).map { String($0.1) }
        }
    }

    /// Whether `quoted` is the message, or its beginning.
    static func isQuote(_ quoted: String, of message: String) -> Bool {
        guard quoted.hasSuffix("…") else { return quoted == message }
        return message.hasPrefix(quoted.dropLast())
    }
}
