extension Commands {
    static let yes = Flag("yes", "do not ask")
}

extension Invocation {
    /// Throws, before anything is printed, where no person can be asked and `--yes` was not given.
    func checkSomebodyAnswers(_ verb: String) throws(UsageError) {
        guard !arguments[Commands.yes], !dependencies.isInputTerminal else { return }
        throw UsageError("nobody can be asked here; give --yes to \(verb) without a question")
    }

    /// Asks on a terminal, unless `--yes` was given. Anything but yes counts as no, and throws.
    func confirm(
        _ question: String, otherwise refusal: String = "not approved; nothing was changed"
    ) throws(CommandFailure) {
        guard !arguments[Commands.yes] else { return }
        dependencies.sayPlainly("\(question) [y/N] ")
        let line = dependencies.readAnswer()
        // Ctrl-D leaves the cursor behind the question.
        if line == nil { dependencies.sayPlainly("\n") }
        let answer = line?.lowercased().filter { !$0.isWhitespace }
        guard answer == "y" || answer == "yes" else {
            throw CommandFailure(.approvalNeededOrRefused, refusal)
        }
    }
}
