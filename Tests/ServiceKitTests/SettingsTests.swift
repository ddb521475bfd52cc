import Foundation
import Testing

@testable import ServiceKit

@Suite struct SettingsTests {
    private func values(_ text: String) throws -> [String: String] {
        try EnvironmentFile.parse(text, file: "f").reduce(into: [:]) { $0[$1.key] = $1.value }
    }

    static let lines: [(String, String)] = [
        ("A=b", "b"), ("  A = b  ", "b"), ("A=", ""), ("A=b c", "b c"), ("A='b \"c\\'", "b \"c\\"),
        ("A=\"b \\\"c\\\" \\n\"", "b \"c\" \\n"), ("A=b\\ ", "b "), ("A=b\\\nc", "bc"),
        ("A=\"b\nc\"", "b\nc"), ("A='b'c\"d\"", "bc\"d\""), ("A=b#c", "b#c"), ("A=\"b\"   ", "b"),
        ("\u{FEFF}A=b\r\n", "b"), ("# c\n; d\n\nA=b", "b"), ("A=x\nA=b", "b"), ("A=b=c", "b=c"),
        ("A=host=x name='on call' word='se cret'", "host=x name='on call' word='se cret'"),
        ("A=\"b\" 'c'", "bc"), ("A=\"b\" c d", "bc d"), ("A=  b \"c\"  ", "b \"c\""),
        ("A=\"  \"", "  "), ("A=postgres://u:p@h/d?x=y", "postgres://u:p@h/d?x=y"),
    ]

    @Test(arguments: lines)
    func file_inSystemdSyntax_isRead(text: String, value: String) throws {
        #expect(try values(text) == ["A": value])
    }

    static let bad: [(String, Int)] = [
        ("A", 1), ("A=b\nexport C=d", 2), ("# c\n\n1A=b", 3), ("=b", 1), ("A=\"b", 1),
        ("A=b\nB='c\nd", 2), ("A=b\u{0}c", 1), ("A-B=c", 1),
    ]

    @Test(arguments: bad)
    func file_withABadLine_namesIt(text: String, line: Int) {
        let error = #expect(throws: SettingsError.self) { try values(text) }

        #expect(error?.description.hasPrefix("f:\(line): ") == true)
    }

    @Test func file_withSeveralBadLines_namesThemAll() {
        let error = #expect(throws: SettingsError.self) { try values("A\nB=b\nC-D=e\nF=\"g") }

        let lines = error?.description.split(separator: "\n").map { $0.prefix(4) }
        #expect(lines == ["f:1:", "f:3:", "f:4:"])
    }

    @Test func settings_fromBothSources_preferTheProcess() throws {
        let path = NSTemporaryDirectory() + "settings-\(UUID().uuidString).env"
        try "A=file\n\nB=file\n".write(toFile: path, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }

        let settings = try Settings.load(environment: ["A": "process", "X": ""], envFile: path)

        #expect(settings.value("A")?.text == "process")
        #expect(settings.value("A")?.source == "environment")
        #expect(settings.value("B")?.text == "file")
        #expect(settings.value("B")?.source == "\(path):3")
        #expect(settings.value("X")?.text == "")
        #expect(settings.value("C") == nil)
        #expect(settings.entries(prefix: "").map(\.key) == ["A", "B", "X"])
    }

    @Test(arguments: ["/nonexistent/file.env", "/tmp"])
    func settings_fromAnUnreadableFile_sayWhich(path: String) {
        let error = #expect(throws: SettingsError.self) {
            try Settings.load(environment: [:], envFile: path)
        }

        #expect(error?.description.hasPrefix("\(path): ") == true)
    }
}
