import AppStore
package import Facts
import Foundation

extension StoreCall {
    /// A new call. What it says is kept as JSON, so that a retry sends the very same content.
    package init(
        _ kind: Kind, subject: String, callID: String, bucket: Int, carries: [String] = [],
        parents: [String] = [], saying intent: some Encodable
    ) throws {
        self.init(
            kind, subject: subject, callID: callID, bucket: bucket, carries: carries,
            parents: parents,
            intent: String(decoding: try JSONEncoder().encode(intent), as: UTF8.self))
    }

    /// The decoded intent of the call; nil where it cannot be read.
    package func said<Intent: Decodable>(_: Intent.Type) -> Intent? {
        // The caller reports an intent that cannot be read.
        try? JSONDecoder().decode(Intent.self, from: Data(intent.utf8))
    }
}

extension StoreAnswer {
    /// The answer of an attempt whose intent cannot be read. It sent nothing, but an earlier attempt may have been
    /// applied.
    package static let unreadableIntent = unknown(
        reason: "the stored call can't be read", StoreReply())
}
