package import Postgres

extension PostgresError {
    /// Whether the error lies in the values. Then the same work would fail again, so it is quarantined.
    package var isAboutData: Bool {
        switch code {
        case .nulInText, .unrepresentableValue, .tooLarge, .unexpectedNull, .undecodableColumn: true
        case .server:
            // Class 54 is "program limit exceeded", such as an id that is too long for its index.
            sqlState.map {
                $0.isDataException || $0.isIntegrityConstraintViolation || $0.classCode == "54"
            } ?? false
        case .badConnectionString, .cannotConnect, .connectionLost, .commitOutcomeUnknown, .closed,
            .transactionMisused, .transactionAborted, .wrongCall, .missingColumn,
            .unexpectedRowCount, .poolTimedOut, .poolClosed:
            false
        }
    }
}

/// Whether the work gave up waiting for a lock of another session. Nothing was written, and the same work succeeds once
/// that session releases the lock.
package func isHeldByOthers(_ error: any Error) -> Bool {
    (error as? PostgresError)?.sqlState == .lockNotAvailable
}

/// Whether this piece of work would fail every time, because its data is at fault.
package func isDataFault(_ error: any Error) -> Bool {
    if let error = error as? PostgresError { return error.isAboutData }
    return error is FactsError
}
