import Batches

extension Commands {
    private static let web = Flag(
        "web", "print the address of the page that shows it, and nothing else")

    static let show = Command(
        "show", "what was submitted: consent, money, dates, largest moves, who may approve",
        positionals: [batch], options: [summaryCurrency, details, web],
        discussion: """
            Reads the stored plan, as it was forecast at the submission: what became of it tells `status`. AT RISK is \
            what ends a month if nobody whose consent is required consents, dependents counted in; NOT KNOWN the same of \
            those who may be asked. --web takes the address from REPRICER_PAGES_LISTEN.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let name = try invocation.arguments.required(batch)
        let currency = try invocation.arguments.reportingCurrency()
        let now = try await invocation.now(configuration).milliseconds
        return try await invocation.withPool(configuration) { pool in
            let batch = try await BatchFinder.find(name, pool: pool)
            if invocation.arguments[web] {
                let address = try page(of: batch, configuration)
                let line = (invocation.isJSON ? (["url": address] as JSONValue).text : address)
                try invocation.print(line + "\n")
                if configuration.entries.contains(where: {
                    $0.variable == .pagesListen && $0.source == "default"
                }) {
                    invocation.note(
                        "this is the default address, on the machine that runs `repricer serve`: give its "
                            + "REPRICER_PAGES_LISTEN where it is another")
                }
                return .done
            }
            let rate = try await configuration.completed(by: pool).changePriceRate
            let facts = try await invocation.telling("reading what was submitted") {
                try await ApprovalFacts.read(batch, now: now, in: currency, rate, pool)
            }
            try invocation.print(
                json: facts.json,
                facts.text(
                    isTerminal: invocation.dependencies.isOutputTerminal,
                    withDetails: invocation.arguments[details], rows: invocation.screenRows))
            if batch.awaitsApproval {
                let word = try await BatchFinder.word(for: batch.batchID, pool: pool)
                let next = "approve \(word)"
                facts.terms.isOwn
                    ? invocation.suggest(next, by: "by another user") : invocation.suggest(next)
            }
            return .done
        }
    }

    private static func page(
        of batch: BatchQueries.Batch, _ configuration: Configuration
    ) throws -> String {
        guard let address = configuration.pagesListen else {
            throw CommandFailure(
                .failed, "there are no pages: REPRICER_PAGES_LISTEN is off or no address")
        }
        // A program that listens on all addresses can be reached on this machine too.
        let host = ["0.0.0.0", "::", ""].contains(address.host) ? "127.0.0.1" : address.host
        let shown = host.contains(":") ? "[\(host)]" : host
        return "http://\(shown):\(address.port)/batches/\(batch.batchID)/approval"
    }
}
