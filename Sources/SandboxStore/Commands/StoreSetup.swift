import ServiceKit

/// The flags that define a store, and the store that they open or create.
struct StoreSetup: Sendable {
    var folder: StoreFolder
    var clock: VirtualClock.Parsed?
    var shortMonth: Int64?
    var seed: Int64?
    var bundleID: String?
    var appAppleID: Int64?
    var repeats: StoreEngine.Repeats?

    init(_ arguments: Arguments) throws(SandboxError) {
        let path = try arguments.required("data")
        seed = try arguments.integer("seed", in: 0...Int64.max)
        appAppleID = try arguments.integer("app-apple-id", in: 1...Int64.max)
        shortMonth = try arguments.integer("month", in: 1...2_678_400).map { $0 * 1000 }
        bundleID = arguments["bundle-id"]
        if bundleID?.isEmpty == true { throw SandboxError(.usage, "--bundle-id is empty") }
        if let text = arguments["repeats"] {
            guard let known = StoreEngine.Repeats(rawValue: text) else {
                let names = StoreEngine.Repeats.allCases.map(\.rawValue).joined(separator: ", ")
                throw SandboxError(.usage, "--repeats \(text) is none of \(names)")
            }
            repeats = known
        }
        if let text = arguments["clock"] {
            if shortMonth != nil {
                throw SandboxError(.usage, "--clock and --month exclude each other")
            }
            do throws(ClockFormatError) {
                clock = try VirtualClock.parse(text)
            } catch {
                throw SandboxError(.usage, "--clock: \(error)")
            }
            guard let start = clock?.start, start >= StoreKeys.validFrom,
                start < StoreKeys.validUntil
            else { throw SandboxError(.usage, "--clock must start between 2020 and 2040") }
        }
        folder = try StoreFolder(path)
    }

    var environment: String { shortMonth == nil ? "Production" : "Sandbox" }

    /// Opens the folder's store, or creates an empty one. A flag that contradicts a stored value is an error.
    func open(now: Int64) throws(SandboxError) -> StoreFile {
        if let stored = try folder.loadStore() {
            try check(stored)
            return stored
        }
        let store = make(start: clock?.start ?? now)
        try folder.save(store)
        return store
    }

    func make(start: Int64) -> StoreFile {
        let seedNumber = UInt64(seed ?? 1)
        var random = SeededRandom(seed: seedNumber, "account")
        let issuer = random.uuid()
        let keyID = String(random.uuid().filter { $0 != "-" }.prefix(10)).uppercased()
        var options = StoreEngine.Options(
            seed: seedNumber, calendar: BillingCalendar(shortMonth: shortMonth),
            renewalsMax: shortMonth == nil ? nil : 12)
        options.repeats = repeats
        return StoreFile(
            identity: StoreIdentity(
                bundleID: bundleID ?? "com.example.stream", appAppleID: appAppleID ?? 1_234_567_890,
                environment: environment),
            issuerID: issuer, keyID: keyID,
            options: options,
            start: start, subscriptions: [])
    }

    private func check(_ stored: StoreFile) throws(SandboxError) {
        func same<Value: Equatable>(
            _ flag: String, _ given: Value?, _ kept: Value
        ) throws(SandboxError) {
            guard let given, given != kept else { return }
            throw SandboxError(
                .conflict,
                "--\(flag) \(given) is not that of the store in \(folder.path) (\(kept)); "
                    + "use another folder")
        }
        try same("bundle-id", bundleID, stored.identity.bundleID)
        try same("app-apple-id", appAppleID, stored.identity.appAppleID)
        try same("seed", seed.map(UInt64.init), stored.options.seed)
        if let clock {
            try same("clock", RFC3339.format(clock.start), RFC3339.format(stored.start))
        }
        try same(
            "repeats", repeats?.rawValue,
            (stored.options.repeats ?? .staleToken).rawValue)
        let kept = stored.options.calendar.shortMonth
        if let shortMonth, shortMonth != kept {
            throw SandboxError(
                .conflict, "the store in \(folder.path) has another --month; use another folder")
        }
        if clock != nil, kept != nil {
            throw SandboxError(
                .conflict, "the store in \(folder.path) runs on --month; use another folder")
        }
    }
}
