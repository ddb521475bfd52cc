/// Apple's two environments; one running instance serves one of them.
package enum StoreEnvironment: String, Hashable, Sendable, CaseIterable {
    case sandbox = "Sandbox"
    case production = "Production"
}
