package import AppStore
package import Ledger

extension Evidence {
    /// The `signedPayload`, to the byte.
    ///
    /// It costs a tenth of a verification; who only reads what it says takes `decoded`.
    package func signedPayload() throws(PackedPayload.Damage) -> String {
        switch self {
        case .whole(let text): text
        case .packed(let bytes, let headers):
            try PackedPayload(bytes: bytes, headers: headers.map(\.text)).text()
        }
    }
}
