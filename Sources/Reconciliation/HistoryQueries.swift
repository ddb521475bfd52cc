package import Postgres

/// The position up to which the App Store's notification history was read. Only the holder of the lease writes its one
/// row.
package enum HistoryQueries {
    package enum Pass: String, Sendable {
        /// The notifications that never reached our server, over the whole window.
        case failures
        /// All notifications of the window, slice by slice.
        case everything
    }

    /// A span of time that is being read. Instants are UTC milliseconds.
    package struct Window: Sendable, Equatable {
        package var start: Int64
        package var end: Int64
        package var pass: Pass
        package var sliceStart: Int64
        /// The token of the slice's next page; nil for its first.
        package var pageToken: String?

        package init(start: Int64, end: Int64) {
            self.start = start
            self.end = end
            pass = .failures
            sliceStart = start
        }
    }

    package struct Position: Sendable, Equatable {
        /// Everything before this instant was read without a gap; nil when nothing was.
        package var readThrough: Int64?
        package var window: Window?
    }

    package static func load(on connection: isolated PostgresConnection) throws -> Position {
        let row = try connection.query(
            """
            -- name: historyPosition
            SELECT * FROM repricer.history_reading
            """
        ).one()
        var position = Position(readThrough: try row.millisecondsOrNil("read_through"))
        guard let start = try row.millisecondsOrNil("window_start"),
            let end = try row.millisecondsOrNil("window_end"),
            let pass = try row.textOrNil("pass").flatMap({ Pass(rawValue: $0) }),
            let sliceStart = try row.millisecondsOrNil("slice_start")
        else { return position }
        var window = Window(start: start, end: end)
        window.pass = pass
        window.sliceStart = sliceStart
        window.pageToken = try row.textOrNil("page_token")
        position.window = window
        return position
    }

    /// Stores the position of the read. Returns false where the lease was lost.
    package static func save(
        _ window: Window, lease: String, owner: String, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.execute(
            """
            -- name: saveHistoryWindow
            UPDATE repricer.history_reading SET window_start = \(timestamp: window.start),
                window_end = \(timestamp: window.end), pass = \(window.pass.rawValue),
                slice_start = \(timestamp: window.sliceStart), page_token = \(window.pageToken)
            WHERE EXISTS (\(fragment: isHeld(lease, owner)))
            """) == 1
    }

    /// Notes that the window is read. Where it joins what was read before, the position moves to its end.
    package static func finish(
        _ window: Window, joins: Bool, lease: String, owner: String,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.execute(
            """
            -- name: finishHistoryWindow
            UPDATE repricer.history_reading SET window_start = NULL, window_end = NULL, pass = NULL,
                slice_start = NULL, page_token = NULL,
                read_through = CASE WHEN \(joins)
                    THEN greatest(read_through, \(timestamp: window.end)::timestamptz)
                    ELSE read_through END
            WHERE EXISTS (\(fragment: isHeld(lease, owner)))
            """) == 1
    }

    private static func isHeld(_ lease: String, _ owner: String) -> SQL {
        """
        SELECT 1 FROM repricer.service_leases
        WHERE name = \(lease) AND owner = \(uuid: owner)
        """
    }
}
