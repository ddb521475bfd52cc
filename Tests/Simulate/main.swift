import Foundation
import Simulation

/// `simulate SOCKET MIGRATIONS FOLDER SUBSCRIPTIONS DAYS JOBS SEED…`: lives through a world a seed, writes
/// `FOLDER/SEED.json` for the auditor, and says `lived SEED`, or what went wrong. `Deploy/simulate` is how people call it.
let arguments = Array(CommandLine.arguments.dropFirst())
let numbers = arguments.dropFirst(3).map { UInt64($0) }
guard arguments.count >= 7, let subscriptions = numbers[0], (1...100_000).contains(subscriptions),
    let days = numbers[1], (40...3660).contains(days), let jobs = numbers[2],
    (1...64).contains(jobs), !numbers.contains(where: { $0 == nil })
else {
    FileHandle.standardError.write(
        Data("simulate: started by Deploy/simulate, which says how\n".utf8))
    exit(2)
}
let (socket, migrations, folder) = (arguments[0], arguments[1], arguments[2])
let seeds = numbers.dropFirst(3).compactMap { $0 }

func live(_ seed: UInt64) async -> Bool {
    let place = "\(folder)/store-\(seed)"
    do {
        let world = try await World(
            .init(seed: seed, subscriptions: Int(subscriptions), days: Int64(days)),
            socket: socket, folder: place)
        let text = try await world.live()
        try text.write(toFile: "\(folder)/\(seed).json", atomically: true, encoding: .utf8)
        try FileManager.default.removeItem(atPath: place)
        tell("lived \(seed)")
        return true
    } catch {
        tell("seed \(seed): \(error)")
        return false
    }
}

/// At once: who reads it judges one world while the next ones live.
func tell(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

try await SimulationDatabase.prepare(socket, migrations: migrations)
let isSound = await withTaskGroup(of: Bool.self) { group in
    var next = seeds.makeIterator()
    for _ in 0..<jobs {
        if let seed = next.next() { group.addTask { await live(seed) } }
    }
    var isSound = true
    while let ended = await group.next() {
        isSound = isSound && ended
        if let seed = next.next() { group.addTask { await live(seed) } }
    }
    return isSound
}
exit(isSound ? 0 : 1)
