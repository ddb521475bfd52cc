import CRelease

/// The command line of `appstore-sandbox`.
package enum SandboxCommand {
    package static let version = String(cString: repricer_version())

    static let help = """
        appstore-sandbox: a simulated App Store for rehearsals and tests

        appstore-sandbox serve --data DIR --notify URL [--listen HOST:PORT] [STORE]
            Serves the Advanced Commerce and App Store Server endpoints over TLS and posts signed
            notifications to URL. Writes DIR/sandbox.env once it listens. A restart goes on where
            the store was stopped, on the same clock.
            --listen HOST:PORT   default 127.0.0.1:9090; port 0 takes a free one

        appstore-sandbox seed --data DIR --subscriptions N [--pairs N] [--lives adversarial]
                         [--batch FILE] [STORE]
            Makes N subscribers as of START: DIR/store.json and DIR/subscriptions.ndjson (signed
            notifications: the newest of each, and the first of most), and a sample batch for them:
            DIR/batch.csv, and FILE when given. Beyond them, --pairs N makes customers with two
            subscriptions, one a dependent of the other. With --lives adversarial customers do what
            no price change expects, in the first 120 days: refunds in part and whole, reversals,
            downgrades taken back, leaving and buying again, moves, prices set elsewhere.

        appstore-sandbox act --data DIR --action JSON
            Has the open store do what subscribers do in the app; JSON as for POST /sandbox/act.

        appstore-sandbox sample-batch --data DIR --out FILE
            Copies the sample batch; - is stdout.

        appstore-sandbox version | help

        STORE, kept in DIR by the first command that makes it:
            --clock START@RATE   Production's calendar on a clock that begins at START (RFC 3339)
                                 and runs RATE seconds a second, from the first serve on
            --month SECONDS      environment Sandbox, a month lasts SECONDS
            --seed N             default 1; the same seed makes the same store
            --bundle-id ID       default com.example.stream
            --app-apple-id N     default 1234567890
            --repeats HOW        a price whose earlier call the caller has forgotten: stale-token
                                 (default: refused for its token), accepted, refused (4000205)

        Endpoints of its own: GET /sandbox/clock, /sandbox/state[?subscription=ID], /sandbox/calls;
        POST /sandbox/faults {"endpoint":"changePrice","kind":"drop_after","count":3} (kinds:
        drop_before, drop_after, http_500, http_429, late, slow, garbage, hollow, reset_before,
        reset_after, refuse_repeats, refuse (with a code), expire_token, no_token, forge; for
        notifications duplicate, reorder, delay, lose; "seconds":S is real time, 35 for drops and
        late calls, 1 for notifications); DELETE /sandbox/faults;
        POST /sandbox/act {"subscription":ID,"action":"modify","retainBillingCycle":true,"items":
        [{"currentSKU":S,"SKU":T,"price":P}]} (also reactivate, rename, migrate, consent, turn_off,
        turn_on, refund): what subscribers and servers do besides price changes.

        Exit codes: 0 done, 1 failed, 2 usage, 3 input rejected, 5 conflict.

        """

    /// Runs one command; returns the exit code.
    package static func run(
        _ arguments: [String], output: @Sendable (String) -> Void,
        errors: @Sendable (String) -> Void
    ) async -> Int32 {
        do {
            try await dispatch(arguments, output: output)
            return 0
        } catch let error as SandboxError {
            errors("appstore-sandbox: \(error)\n")
            if error.code == .usage { errors("See appstore-sandbox help.\n") }
            return exitCode(error.code)
        } catch {
            errors("appstore-sandbox: \(error)\n")
            return 1
        }
    }

    static func exitCode(_ code: SandboxError.Code) -> Int32 {
        switch code {
        case .failed: 1
        case .usage: 2
        case .inputRejected: 3
        case .conflict: 5
        }
    }

    private static func dispatch(
        _ arguments: [String], output: @Sendable (String) -> Void
    ) async throws {
        let rest = Array(arguments.dropFirst())
        switch arguments.first {
        case let word? where commands.contains(word) && rest.contains("--help"): output(help)
        case "serve": try await serve(rest)
        case "seed": try seed(rest, output: output)
        case "act": try await act(rest, output: output)
        case "sample-batch": try sampleBatch(rest, output: output)
        case "version", "--version":
            guard rest.isEmpty else { throw SandboxError(.usage, "version takes no arguments") }
            output("appstore-sandbox \(version)\n")
        case "help", "--help", "-h": output(help)
        case nil: throw SandboxError(.usage, "a command is missing")
        case .some(let word): throw SandboxError(.usage, "unknown command \"\(word)\"")
        }
    }

    private static let commands: Set<String> = ["serve", "seed", "act", "sample-batch"]

    static let storeFlags: Set<String> = [
        "data", "clock", "month", "seed", "bundle-id", "app-apple-id", "repeats",
    ]
}
