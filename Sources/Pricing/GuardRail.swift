/// A limit that pauses its batch when more than so many percent of its results so far are of one kind.
package struct GuardRail: Hashable, Sendable {
    /// What is counted, and of what.
    package enum Figure: String, Hashable, Sendable, CaseIterable {
        /// Changes that the App Store refused, of those that it answered.
        case errors
        /// Customers who did not consent, of those who were asked.
        case declined
        /// Customers who turned renewal off, left, removed the item or got their money back, of those who were told (asked or
        /// informed).
        case autoRenewOff = "auto_renew_off"
        /// Changes that take effect at a later renewal than was approved, of those that were queued or sent.
        case moved
    }

    /// The default guards: the batch is paused when more than 5 % of at least 50 answers are refusals.
    package static let byDefault = [GuardRail(figure: .errors, over: 500)]

    /// The default of `least`. Fewer results say little: 1 of 3 is already 33 %.
    package static let leastByDefault = 50

    package var figure: Figure
    /// The limit in hundredths of a percent. More than that pauses the batch.
    package var over: Int
    /// How many results must be counted before the guard is judged.
    package var least: Int

    package init(figure: Figure, over: Int, least: Int = Self.leastByDefault) {
        self.figure = figure
        self.over = over
        self.least = least
    }

    /// The guard as it is typed: `errors>2%`, `declined>5%/200`.
    package var text: String {
        let (whole, rest) = over.quotientAndRemainder(dividingBy: 100)
        let decimals = rest == 0 ? "" : "." + String(String(rest + 100).dropFirst())
        let least = least == Self.leastByDefault ? "" : "/\(least)"
        return "\(figure.rawValue)>\(whole)\(decimals)%\(least)"
    }

    /// Whether `count` of `all` is too many.
    package func isExceeded(by count: Int64, of all: Int64) -> Bool {
        all >= Int64(least) && isShareExceeded(by: count, of: all)
    }

    /// The same, without the least number of results.
    package func isShareExceeded(by count: Int64, of all: Int64) -> Bool {
        guard count > 0 else { return false }
        let left = count.multipliedFullWidth(by: 10_000)
        let right = all.multipliedFullWidth(by: Int64(over))
        return (left.high, left.low) > (right.high, right.low)
    }
}

extension GuardRail {
    /// Why a text is no guard rail.
    package struct Fault: Error, Hashable, CustomStringConvertible {
        package var description: String
    }

    /// Reads `errors>2%,declined>5%/200,auto_renew_off>3%`, each figure once. `none` stands for no guards.
    package static func list(_ text: String) throws(Fault) -> [GuardRail] {
        guard text != "none" else { return [] }
        var rails: [GuardRail] = []
        for element in text.split(separator: ",", omittingEmptySubsequences: false) {
            let rail = try GuardRail(String(element))
            guard !rails.contains(where: { $0.figure == rail.figure }) else {
                throw Fault(description: "\(rail.figure.rawValue) is given twice")
            }
            rails.append(rail)
        }
        return rails
    }

    private init(_ text: String) throws(Fault) {
        let sides = text.split(separator: ">", omittingEmptySubsequences: false).map(String.init)
        guard sides.count == 2, let name = sides.first, let limit = sides.last,
            let figure = Figure(rawValue: name)
        else {
            let names = Figure.allCases.map(\.rawValue).joined(separator: ", ")
            throw Fault(
                description: "'\(text)' is no guard rail; write errors>2%, the figures are \(names)"
            )
        }
        let parts = limit.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count <= 2, let percent = parts.first, percent.hasSuffix("%"),
            let over = WavePlan.hundredths(String(percent.dropLast()))
        else {
            throw Fault(description: "'\(limit)' is no limit; write 2% or 0.5%, or 2%/200")
        }
        guard over < 10_000 else {
            throw Fault(description: "'\(percent)' can't be exceeded; write less than 100%")
        }
        var least = Self.leastByDefault
        if parts.count == 2 {
            guard let count = Int(parts[1]), (1...1_000_000_000).contains(count) else {
                throw Fault(
                    description: "'\(parts[1])' is no number of changes; write 2%/200")
            }
            least = count
        }
        self.init(figure: figure, over: over, least: least)
    }
}
