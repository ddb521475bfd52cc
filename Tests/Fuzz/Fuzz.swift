import Foundation

/// Inputs for one reader of ours, and what must hold for every one of them.
///
/// Not crashing is the least. The rest are promises: an independent, slow reader of the same format
/// says the same, what is written comes back, and how the bytes were cut does not matter.
protocol FuzzTarget {
    static var name: String { get }
    /// Sound inputs to start from.
    static var seeds: [[UInt8]] { get }
    /// Words that the format gives a meaning.
    static var words: [String] { get }
    static func check(_ input: [UInt8])
}

/// Ends the process in the way that the driver saves the input of.
func violated(_ promise: String) -> Never {
    FileHandle.standardError.write(Data("VIOLATED: \(promise)\n".utf8))
    abort()
}

func require(_ holds: Bool, _ promise: @autoclosure () -> String) {
    if !holds { violated(promise()) }
}

/// `fuzz list`, `fuzz seeds NAME FOLDER` (corpus and dictionary) or `fuzz NAME FLAGS…` of libFuzzer.
@main
struct Fuzz {
    private static var targets: [any FuzzTarget.Type] {
        [
            Base64Target.self, JWSTarget.self, JWSHeaderTarget.self, JSONTarget.self,
            NotificationTarget.self, EvidenceTarget.self, HTTPRequestTarget.self,
            HTTPResponseTarget.self, CSVTarget.self, BatchTarget.self, CertificateTarget.self,
        ]
    }

    /// The driver's callback is a C function and can capture nothing.
    nonisolated(unsafe) private static var chosen: (any FuzzTarget.Type)?

    static func main() throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 2 else { throw Usage() }
        if arguments[1] == "list" {
            print(targets.map { $0.name }.joined(separator: "\n"))
            return
        }
        if arguments[1] == "seeds", arguments.count == 4, let target = named(arguments[2]) {
            try write(target, to: arguments[3])
            return
        }
        guard let target = named(arguments[1]) else { throw Usage() }
        chosen = target
        exit(run())
    }

    private struct Usage: Error, CustomStringConvertible {
        let description = "fuzz list | fuzz seeds NAME FOLDER | fuzz NAME [libFuzzer's flags]"
    }

    private static func named(_ name: String) -> (any FuzzTarget.Type)? {
        targets.first { $0.name == name }
    }

    private static func write(_ target: any FuzzTarget.Type, to folder: String) throws {
        let corpus = URL(fileURLWithPath: folder).appendingPathComponent("corpus")
        try FileManager.default.createDirectory(at: corpus, withIntermediateDirectories: true)
        for (index, seed) in target.seeds.enumerated() {
            try Data(seed).write(to: corpus.appendingPathComponent("seed-\(index)"))
        }
        let words = target.words.map { word in
            let escaped = word.utf8.map { byte in
                let digits = String(byte, radix: 16, uppercase: true)
                return "\\x\(byte < 16 ? "0" : "")\(digits)"
            }
            return "\"\(escaped.joined())\"\n"
        }
        try words.joined().write(
            toFile: folder + "/words", atomically: true, encoding: .utf8)
    }

    private static func run() -> Int32 {
        limitTimeOfAnInput()
        // The driver reads the flags as if the target's name were the program's.
        var count = CommandLine.argc - 1
        var values = CommandLine.unsafeArgv + 1
        return runDriver(&count, &values) { bytes, length in
            Fuzz.armTimer()
            Fuzz.chosen?.check(Array(UnsafeBufferPointer(start: bytes, count: length)))
            return 0
        }
    }

    /// Seconds of a core that one input may take: a thousand times what the slowest one needs.
    private static let secondsOfAnInput = 20

    /// The driver's own limit is of the clock. Beside other work a process of the lowest priority
    /// may wait for half a minute and have done nothing wrong, so what it computed is measured.
    private static func limitTimeOfAnInput() {
        signal(SIGPROF) { _ in
            violated("an input takes more than \(Fuzz.secondsOfAnInput) s of a core")
        }
    }

    private static func armTimer() {
        var limit = itimerval()
        limit.it_value.tv_sec = secondsOfAnInput
        setitimer(Int32(ITIMER_PROF.rawValue), &limit, nil)
    }
}

/// libFuzzer's own entry; the toolchain links it with `-sanitize=fuzzer`.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<Int32>,
    _ values: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ callback: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32
