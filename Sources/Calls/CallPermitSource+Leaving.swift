/// Slots for calls that must have left by an instant, or not at all.
extension CallPermitSource {
    /// Waits for a slot of the lease, or of another one where those were missed. False when the call must not leave any
    /// more: the instant has passed, the App Store asked for silence, or the service is to stop.
    ///
    /// A pause is asked for when a call is claimed. Whatever its slot waits for after that, it has to come soon.
    package func take(from slots: CallPermits, before: ContinuousClock.Instant) async throws -> Bool
    {
        do {
            var hasSlot = try await slots.take()
            while !hasSlot {
                guard ContinuousClock.now < before, mayLeave(by: slots) else {
                    return false
                }
                let more = try await lease(1)
                guard more.lease.blockedUntil == nil else { return false }
                hasSlot = try await more.take()
                if !hasSlot { try await pause(after: more) }
            }
        } catch is CancellationError {
            return false
        }
        return ContinuousClock.now < before && mayLeave(by: slots)
    }

    private func mayLeave(by slots: CallPermits) -> Bool {
        !slots.isSilenced && silenced == nil && !Task.isCancelled
    }

    /// Waits so long at most until one call may be made; false when none may.
    package func takeOne(within limit: Duration) async throws -> Bool {
        let before = ContinuousClock.now + limit
        return try await take(from: lease(1), before: before)
    }
}
