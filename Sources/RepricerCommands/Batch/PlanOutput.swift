import Batches
import Pricing
import Reports

/// Receives the rows of a plan as they are judged: names the refused ones, writes the requested files, and adds up the
/// figures. Only its list of calls grows with the batch.
actor PlanOutput: PlanSink {
    struct Wishes: Sendable {
        var rows: String?
        var rejects: String?
        /// The file with the rows of an earlier plan, to say what differs.
        var earlierRows: String?
    }

    /// Rows in their output forms. They are made on any thread.
    struct Prepared: Sendable {
        fileprivate var rows: [PlanRow]
        fileprivate var overtaken: [PlannedPiece.Overtaken]
        fileprivate var hashed: [UInt8] = []
        fileprivate var faults = ""
        fileprivate var written: [String] = []
        fileprivate var rejects = ""
    }

    struct Finished: Sendable {
        var hash: String
        var forecast: BatchForecast
        /// The first rows that differ from an earlier plan. The counts are nil where none was given.
        var drift: [String]
        var driftCount: Int?
    }

    private nonisolated let wishes: Wishes
    private nonisolated let path: String
    private nonisolated let rejectsWriter: RejectsWriter
    private nonisolated let waves: WavePlan?
    private nonisolated let rowsAreCSV: Bool
    private let dependencies: Dependencies
    private let rowsFile: OutputFile?
    private let rejectsFile: OutputFile?
    private var drift: PlanDrift?
    private let progress: ProgressBar
    private let rowCount: Int64
    private var hash: PlanHash
    private var forecast: BatchForecast
    /// There are few of these, whatever the size of the batch, because each open change causes one warning.
    private var overtaken: Set<String> = []
    /// The result; nil until all rows were taken.
    private(set) var finished: Finished?

    init(
        _ wishes: Wishes, of session: PlanSession, dependencies: Dependencies, isQuiet: Bool = false
    ) throws {
        self.wishes = wishes
        self.dependencies = dependencies
        progress = ProgressBar(dependencies: dependencies, isQuiet: isQuiet)
        rowCount = Int64(session.outline.rowCount)
        path = session.input.path
        hash = session.emptyHash
        forecast = BatchForecast(session.terms, asOf: session.asOf)
        waves = session.terms.waves
        rowsAreCSV = wishes.rows?.lowercased().hasSuffix(".csv") ?? false
        rejectsWriter = RejectsWriter(
            columns: session.outline.columns, priceUnit: session.outline.priceUnit)
        // `-` names both standard input and standard output, which are different files.
        let read = [session.input.path, wishes.earlierRows].compactMap { $0 }.filter { $0 != "-" }
        rowsFile = try wishes.rows.map {
            try OutputFile(path: $0, besides: read, dependencies: dependencies)
        }
        let taken = read + [wishes.rows].compactMap { $0 }
        rejectsFile = try wishes.rejects.map {
            try OutputFile(path: $0, besides: taken, dependencies: dependencies)
        }
        drift = try wishes.earlierRows.map { try PlanDrift(path: $0) }
        try rejectsFile?.write(rejectsWriter.header)
        if rowsAreCSV { try rowsFile?.write(PlanRowCSV.header(waves)) }
    }

    nonisolated func prepare(_ piece: PlannedPiece) throws -> Prepared {
        var prepared = Prepared(rows: piece.rows, overtaken: piece.overtaken)
        for (place, (row, entry)) in zip(piece.rows, piece.entries).enumerated() {
            (piece.withoutWaves[place] ?? row).appendHashed(to: &prepared.hashed)
            if wishes.rows != nil || wishes.earlierRows != nil {
                prepared.written.append(rowsAreCSV ? PlanRowCSV.record(row, waves) : json(row))
            }
            guard let fault = row.fault else { continue }
            switch entry {
            case .row(let row):
                prepared.faults += told([fault], row.line)
                if wishes.rejects != nil { prepared.rejects += rejectsWriter.line(row, fault) }
            case .spoiled(let row):
                prepared.faults += told(row.faults, row.line)
                if wishes.rejects != nil { prepared.rejects += rejectsWriter.line(row) }
            }
        }
        return prepared
    }

    private nonisolated func told(_ faults: [RowFault], _ line: Int) -> String {
        faults.map { harmless($0.text(file: path, line: line)) + "\n" }.joined()
    }

    /// The row with its wave, where the batch has waves.
    private nonisolated func json(_ row: PlanRow) -> String {
        guard let waves else { return row.json }
        let wave = PlanRowCSV.wave(row, waves)
        return row.json.dropLast() + ",\"wave\":\(wave.map(String.init) ?? "null")}"
    }

    func take(_ prepared: Prepared) throws {
        hash.add(prepared.hashed)
        for row in prepared.rows { forecast.add(row) }
        let done = Int64(forecast.rowCount)
        progress.drawIfLate(
            done: done, total: rowCount, note: "\(counted(done)) of \(counted(rowCount)) rows")
        for change in prepared.overtaken where overtaken.insert(change.changeID).inserted {
            forecast.warn(.makesOthersAsk, change.line)
        }
        if !prepared.faults.isEmpty {
            progress.clear()
            dependencies.sayPlainly(prepared.faults)
        }
        for row in prepared.written { try rowsFile?.write(rowsAreCSV ? row : row + "\n") }
        try rejectsFile?.write(prepared.rejects)
        guard drift != nil else { return }
        for (row, json) in zip(prepared.rows, prepared.written) {
            try drift?.compare(row.line, json)
        }
    }

    /// The figures, once all rows were taken. It must be called, because what is still buffered would be lost
    /// otherwise.
    func finish() throws -> Finished {
        progress.clear()
        try rowsFile?.flush()
        try rejectsFile?.flush()
        try drift?.finish()
        forecast.finish()
        let figures = Finished(
            hash: hash.text, forecast: forecast, drift: drift?.lines ?? [],
            driftCount: drift?.count)
        finished = figures
        return figures
    }
}
