import Foundation
import HTTP
import ServiceKit

/// The sandbox's own endpoints: clock, state, ledger, faults. They need no token.
extension Routes {
    func inspect(_ request: HTTPRequest, _ path: [String]) async throws -> HTTPResponse {
        switch (request.method, path) {
        case ("GET", ["clock"]):
            let now = keeper.clock.nowMilliseconds()
            var fields = ["now": RFC3339.format(now)]
            fields["specification"] = clockSpecification
            return try json(fields)
        case ("GET", ["state"]):
            if let id = request.query["subscription"]?.first {
                guard let found = await keeper.subscription(id) else {
                    return refusal(.transactionNotFound)
                }
                return try json(found)
            }
            return try json(await keeper.state())
        case ("GET", ["calls"]):
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            let lines = try await keeper.callRecords().map { record in
                String(decoding: try encoder.encode(record), as: UTF8.self) + "\n"
            }
            return HTTPResponse(
                status: 200, contentType: "application/x-ndjson", text: lines.joined())
        case ("POST", ["faults"]):
            if let problem = await keeper.addFault(request.body) {
                return .text(400, problem + "\n")
            }
            return HTTPResponse(status: 204)
        case ("POST", ["act"]): return try await act(request.body)
        case ("DELETE", ["faults"]):
            await keeper.clearFaults()
            return HTTPResponse(status: 204)
        default: return .text(404, "no such endpoint\n")
        }
    }

    /// Performs an operator's action on a subscription, and answers with its new state.
    private func act(_ body: [UInt8]) async throws -> HTTPResponse {
        switch OperatorAction.parse(body) {
        case .failure(let fault): return .text(400, fault.text + "\n")
        case .success(let action):
            let number = try keeper.wire.begin(
                "act", action.subscription, reference: nil, keyID: nil)
            let outcome = try await keeper.act(action, body: body, number: number)
            switch outcome {
            case .answer(let answer):
                try keeper.wire.end(number, status: 200)
                return try json(answer.subscription)
            case .refused(let error, _):
                try keeper.wire.end(number, status: error.httpStatus)
                return refusal(error)
            }
        }
    }
}
