import Digests

/// The waves of a batch, in order: which rows are sent first, and when the next ones may be sent.
///
/// A row's wave depends on its subscription alone. So all items of one subscription are in one wave, and the same
/// file has the same waves whoever plans it.
package struct WavePlan: Hashable, Sendable {
    package static let wavesMax = 100
    /// Shares are counted in hundredths of a percent.
    static let whole = 10_000

    package struct Wave: Hashable, Sendable {
        package var part: Part
        package var release: Release

        /// The wave as it is typed: `10%`, `GBR+IRL`, `rest`.
        package var label: String { part.label }
    }

    package enum Part: Hashable, Sendable {
        /// A share of all subscriptions, in hundredths of a percent.
        case share(Int)
        /// Storefronts in ISO 3166-1 alpha-3.
        case storefronts([String])
        /// Everything that is in no wave before it. It is always the last wave.
        case rest
    }

    /// What releases a wave once those before it are released.
    package enum Release: Hashable, Sendable {
        /// The approval. Only the first wave can have it.
        case approval
        case hand
        case at(Instant)
        /// A number of milliseconds after the release of the wave before it, or after the approval.
        case after(Int64)

        /// The earliest release of a wave that this releases. A person may do it at once.
        ///
        /// - Parameter before: The earliest release of the wave before it, or the approval.
        package func earliest(after before: Instant) -> Instant {
            switch self {
            case .approval, .hand: before
            case .at(let instant): max(instant, before)
            case .after(let milliseconds): before.advanced(by: milliseconds)
            }
        }
    }

    package let waves: [Wave]

    /// The caveat of a forecast for a batch with waves.
    package static let datesNote =
        "dates and consent are forecast for the earliest release of each wave, as if the batch was approved now and each "
        + "release by hand came at once; each row is judged anew when it is sent"

    /// The earliest release of each wave of a batch that is approved at an instant.
    package func earliestReleases(approvedAt instant: Instant) -> [Instant] {
        var releases: [Instant] = []
        for wave in waves {
            releases.append(wave.release.earliest(after: releases.last ?? instant))
        }
        return releases
    }

    /// The wave of a row, from 1 on; nil where none takes it.
    package func wave(ofSubscription id: String, storefront: String?) -> Int? {
        let point = waves.contains { $0.part.share != nil } ? Self.point(of: id) : 0
        var passed = 0
        for (index, wave) in waves.enumerated() {
            switch wave.part {
            case .rest: return index + 1
            case .storefronts(let names):
                if let storefront, names.contains(storefront) { return index + 1 }
            case .share(let share):
                passed += share
                if point < passed { return index + 1 }
            }
        }
        return nil
    }

    /// The place of a subscription among all, from 0 to 9999: the first eight bytes of the SHA-256 of its id, as a
    /// number, modulo 10,000.
    package static func point(of id: String) -> Int {
        let number = SHA256.digest(of: Array(id.utf8)).prefix(8).reduce(UInt64(0)) {
            $0 << 8 | UInt64($1)
        }
        return Int(number % UInt64(whole))
    }
}

extension WavePlan {
    /// Why a text is no plan, with what to write instead.
    package struct Fault: Error, Hashable, CustomStringConvertible {
        package var description: String
    }

    /// Reads `1%,10%,rest` or `USA,GBR+IRL,rest`, each with `@hand`, `@INSTANT` or `@+2d`. Without these the approval
    /// releases the first wave, and a person the others.
    package init(_ text: String) throws(Fault) {
        var waves: [Wave] = []
        for element in text.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = element.split(
                separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
            let release: Release
            if parts.count > 1 {
                release = try Self.release(String(parts[1]))
            } else {
                release = waves.isEmpty ? .approval : .hand
            }
            waves.append(Wave(part: try Self.part(String(parts.first ?? "")), release: release))
        }
        self.waves = waves
        try check()
    }

    private static func part(_ text: String) throws(Fault) -> Part {
        if text == "rest" { return .rest }
        if text.hasSuffix("%") {
            guard let share = hundredths(String(text.dropLast())), share > 0 else {
                throw Fault(
                    description: "\(text) is no share; write 1% or 0.5%, at least 0.01%")
            }
            return .share(share)
        }
        let names = text.split(separator: "+", omittingEmptySubsequences: false).map(String.init)
        guard names.allSatisfy({ $0.utf8.count == 3 && $0.utf8.allSatisfy(isCapital) }) else {
            throw Fault(
                description:
                    "'\(text)' is neither a share (10%), nor storefronts (USA or GBR+IRL), nor rest"
            )
        }
        return .storefronts(names)
    }

    private static func isCapital(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
    }

    /// Reads `12.5` as 1250; nil for anything but a percentage up to 100 with at most two decimals.
    package static func hundredths(_ text: String) -> Int? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = parts.first, (1...3).contains(whole.utf8.count),
            parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(isDigit) })
        else { return nil }
        let decimals = parts.count > 1 ? String(parts[1]) : ""
        guard decimals.utf8.count <= 2,
            let number = Int(
                whole + decimals + String(repeating: "0", count: 2 - decimals.utf8.count)),
            number <= Self.whole
        else { return nil }
        return number
    }

    /// Writes `1250` hundredths as `12.5%`.
    package static func percent(_ hundredths: Int) -> String {
        let (whole, rest) = hundredths.quotientAndRemainder(dividingBy: 100)
        guard rest > 0 else { return "\(whole)%" }
        let digits = String(String(rest + 100).dropFirst())
        return "\(whole).\(digits.hasSuffix("0") ? String(digits.dropLast()) : digits)%"
    }

    private static func release(_ text: String) throws(Fault) -> Release {
        if text == "hand" { return .hand }
        if text.hasPrefix("+"), let unit = text.last,
            let length = ["m": 60_000, "h": 3_600_000, "d": 86_400_000][unit] as Int64?,
            let count = Int64(text.dropFirst().dropLast()), (1...100_000).contains(count)
        {
            return .after(count * length)
        }
        guard let instant = Instant(text) ?? Instant(text + "T00:00:00Z") else {
            throw Fault(
                description:
                    "@\(text) is no release; write @2026-12-01T00:00:00Z, @+2d (m, h, d) or @hand")
        }
        return .at(instant)
    }

    /// Refuses a wave with an instant that has passed: the approval would release it with those before it.
    package func requireAhead(of now: Instant) throws(Fault) {
        for (index, wave) in waves.enumerated() {
            guard case .at(let instant) = wave.release, instant <= now else { continue }
            throw Fault(
                description:
                    "wave \(index + 1) (\(wave.label)) is to be released at \(instant.text), which has passed; name a later "
                    + (index == 0 ? "instant, or none: the approval then releases it" : "instant"))
        }
    }

    /// The storefronts that waves name.
    package var storefronts: [String] { waves.flatMap(\.part.names) }

    private func checkOrder() throws(Fault) {
        var last: (wave: Int, at: Instant)?
        for (index, wave) in waves.enumerated() {
            guard case .at(let instant) = wave.release else { continue }
            if let last, instant < last.at {
                throw Fault(
                    description:
                        "wave \(index + 1) (\(wave.label)) is to be released at \(instant.text), before wave \(last.wave) "
                        + "(\(last.at.text)); put the waves in the order of their instants")
            }
            last = (index + 1, instant)
        }
    }

    private func check() throws(Fault) {
        try checkOrder()
        guard waves.count <= Self.wavesMax else {
            throw Fault(description: "more than \(Self.wavesMax) waves")
        }
        let shares = waves.compactMap(\.part.share)
        let names = waves.flatMap(\.part.names)
        guard shares.isEmpty || names.isEmpty else {
            throw Fault(description: "waves are either shares or storefronts, not both")
        }
        let sum = shares.reduce(0, +)
        guard sum <= Self.whole else {
            throw Fault(description: "the shares add up to more than 100%; each is a share of all")
        }
        guard Set(names).count == names.count else {
            throw Fault(description: "a storefront is in two waves")
        }
        guard waves.dropLast().allSatisfy({ $0.part != .rest }) else {
            throw Fault(description: "nothing is left after rest; it is the last wave")
        }
        guard waves.last?.part == .rest || sum == Self.whole else {
            throw Fault(description: "some rows would be in no wave; end with rest")
        }
        guard sum < Self.whole || waves.last?.part != .rest else {
            throw Fault(description: "nothing is left for rest")
        }
    }
}

extension WavePlan.Part {
    fileprivate var share: Int? {
        switch self {
        case .share(let share): share
        case .storefronts, .rest: nil
        }
    }

    fileprivate var names: [String] {
        switch self {
        case .storefronts(let names): names
        case .share, .rest: []
        }
    }

    fileprivate var label: String {
        switch self {
        case .rest: return "rest"
        case .storefronts(let names): return names.joined(separator: "+")
        case .share(let share): return WavePlan.percent(share)
        }
    }
}
