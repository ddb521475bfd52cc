extension Commands {
    /// The version of this source tree; a release changes it here and nowhere else.
    static let productVersion = "0.1.0"
    /// The day of that version.
    static let productDate = "2026-11-24"

    static let version = Command("version", "print the program's version") { invocation in
        try invocation.print(
            json: ["name": "repricer", "version": productVersion], "repricer \(productVersion)\n")
        return .done
    }
}
