import HTTP

extension SandboxCommand {
    /// Makes a running store perform a subscriber's action: `POST /sandbox/act`.
    static func act(_ words: [String], output: @Sendable (String) -> Void) async throws {
        let arguments = try Arguments(words, known: ["data", "action"])
        let path = try StoreFolder.absolute(try arguments.required("data"))
        let action = Array(try arguments.required("action").utf8)
        if case .failure(let fault) = OperatorAction.parse(action) {
            throw SandboxError(.inputRejected, fault.text)
        }
        let folder = try StoreFolder(path)
        let key = "REPRICER_API_BASE_URL="
        let settings = try folder.readText("sandbox.env") ?? ""
        guard let line = settings.split(separator: "\n").first(where: { $0.hasPrefix(key) }) else {
            throw SandboxError(.conflict, "no store is open in \(path); run serve first")
        }
        let client = try HTTPClient(
            baseURL: String(line.dropFirst(key.count)), extraCAFile: folder.file("tls-ca.pem"))
        defer { client.close() }
        let answer = try await client.send(
            HTTPRequest(
                method: "POST", target: "/sandbox/act",
                headers: HTTPHeaders([("Content-Type", "application/json")]), body: action))
        let text = String(decoding: answer.body, as: UTF8.self)
        guard answer.status == 200 else {
            throw SandboxError(.inputRejected, "the store answers \(answer.status): \(text)")
        }
        output(text + "\n")
    }
}
