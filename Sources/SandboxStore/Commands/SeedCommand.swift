import ServiceKit

extension SandboxCommand {
    static func seed(_ words: [String], output: @Sendable (String) -> Void) throws {
        let arguments = try Arguments(
            words, known: storeFlags.union(["subscriptions", "pairs", "batch", "lives"]))
        let isAdversarial = try isAdversarial(arguments["lives"])
        let setup = try StoreSetup(arguments)
        guard
            let count = try arguments.integer(
                "subscriptions", in: 1...Int64(SampleMaker.subscriptionsMax))
        else { throw SandboxError(.usage, "--subscriptions is required") }
        guard try setup.folder.loadStore() == nil else {
            throw SandboxError(
                .conflict, "\(setup.folder.path) has a store already; use another folder")
        }
        let keys = try StoreKeys.loadOrMake(in: setup.folder)
        var store = setup.make(start: setup.clock?.start ?? SystemClock().nowMilliseconds())
        let pairs = try arguments.integer("pairs", in: 0...10_000) ?? 0
        let sample = SampleMaker(
            options: store.options, start: store.start, count: Int(count), pairs: Int(pairs)
        ).make()
        let statements = Statements(
            identity: store.identity, signer: try keys.authority.signer())
        var lines: [UInt8] = []
        for index in sample.subscriptions.indices {
            var subscription = sample.subscriptions[index]
            var events: [StoreEvent] = []
            // For one in four no notification of the purchase exists, so that its earlier prices are unknown. Purchases
            // from before the signing certificates cannot be signed at all.
            if index % 4 != 3, subscription.renewalCount > 0,
                subscription.startedAt >= StoreKeys.validFrom
            {
                events.append(
                    StoreEngine.firstEvent(of: &subscription, options: store.options))
            }
            events.append(
                StoreEngine.latestEvent(of: &subscription, options: store.options))
            for event in events {
                lines += Array("{\"signedPayload\":\"\(try statements.signed(event))\"}\n".utf8)
            }
            if isAdversarial {
                subscription.plan.doings = Doing.adversarial(
                    of: subscription.id, seed: store.options.seed, from: store.start,
                    until: store.start + 120 * Milliseconds.day, hasSeats: true)
            }
            store.subscriptions.append(subscription)
        }
        let batch = SampleRow.file(sample.rows)
        try setup.folder.write("subscriptions.ndjson", lines)
        try setup.folder.write("batch.csv", batch)
        if let path = arguments["batch"] { try write(batch, to: path, setup, output) }
        // The clock is kept without an origin, because it starts when the store opens.
        if let clock = setup.clock, clock.origin == nil {
            let rate = Int64(exactly: clock.rate).map(String.init) ?? "\(clock.rate)"
            try setup.folder.write("clock", "\(RFC3339.format(clock.start))@\(rate)\n")
        }
        try setup.folder.save(store)
        let refused = sample.rows.count { $0.code != nil }
        if arguments["batch"] != "-" {
            output(
                "\(sample.subscriptions.count) subscriptions, \(sample.rows.count) rows "
                    + "(\(refused) to be refused) in \(setup.folder.path)\n")
        }
    }

    private static func isAdversarial(_ lives: String?) throws(SandboxError) -> Bool {
        guard let lives else { return false }
        guard ["plain", "adversarial"].contains(lives) else {
            throw SandboxError(.usage, "--lives is plain or adversarial")
        }
        return lives == "adversarial"
    }

    static func sampleBatch(_ words: [String], output: @Sendable (String) -> Void) throws {
        let arguments = try Arguments(words, known: ["data", "out"])
        let setup = try StoreSetup(
            try Arguments(
                ["--data", try arguments.required("data")], known: storeFlags))
        let target = try arguments.required("out")
        guard let batch = try setup.folder.readText("batch.csv") else {
            throw SandboxError(
                .inputRejected, "\(setup.folder.path) has no sample batch; run seed first")
        }
        try write(batch, to: target, setup, output)
    }

    private static func write(
        _ batch: String, to path: String, _ setup: StoreSetup, _ output: (String) -> Void
    ) throws(SandboxError) {
        if path == "-" { return output(batch) }
        try setup.folder.write(try StoreFolder.absolute(path), batch)
    }
}

extension StoreEngine {
    /// The notification of a subscription's first purchase, at today's prices. The subscription has renewed since.
    static func firstEvent(
        of subscription: inout StoreSubscription, options: Options
    ) -> StoreEvent {
        var first = subscription
        first.renewalCount = 0
        first.purchasedAt = first.startedAt
        first.expiresAt = options.calendar.end(
            of: first.period, from: first.startedAt, anchorDay: first.anchorDay)
        first.lastSignedAt = first.startedAt
        first.status = .active
        first.autoRenews = true
        first.items = first.items.map {
            StoreItem(
                sku: $0.sku, displayName: $0.displayName, description: $0.description,
                price: $0.price)
        }
        var engine = StoreEngine(options: options, now: first.lastSignedAt)
        engine.notify(.subscribed, .initialBuy, &first)
        subscription.notificationCount = first.notificationCount
        return engine.takeOutgoing()[0]
    }

    /// The newest notification that Apple would have sent for a past subscription, signed at its instant.
    static func latestEvent(
        of subscription: inout StoreSubscription, options: Options
    ) -> StoreEvent {
        var engine = StoreEngine(options: options, now: subscription.lastSignedAt)
        if subscription.status == .billingRetry {
            engine.notify(.didFailToRenew, nil, &subscription)
        } else if !subscription.autoRenews {
            engine.notify(.didChangeRenewalStatus, .autoRenewDisabled, &subscription)
        } else if subscription.renewalCount > 0 {
            engine.notify(.didRenew, nil, &subscription)
        } else {
            engine.notify(.subscribed, .initialBuy, &subscription)
        }
        return engine.takeOutgoing()[0]
    }
}
