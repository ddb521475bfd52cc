package import AppStore

/// The pages of one question: which comes next, and whether they lead anywhere. A value: pages in, steps out.
package struct PageSequence: Sendable {
    package enum Step: Hashable, Sendable {
        case next(token: String)
        case done
        /// The pages go in a circle or without end.
        case broken(String)
    }

    private let pagesMax: Int
    private var tokens: Set<String> = []
    private var pages = 0

    /// - Parameters:
    ///   - token: Of the first page that will be asked for; nil for the first of all.
    ///   - pagesMax: More pages than a question can have.
    package init(resumingAt token: String?, pagesMax: Int) {
        self.pagesMax = pagesMax
        if let token { tokens.insert(token) }
    }

    package mutating func step(after page: NotificationHistoryPage) -> Step {
        pages += 1
        guard page.hasMore else { return .done }
        guard let token = page.paginationToken else {
            return .broken("hasMore without a paginationToken")
        }
        guard tokens.insert(token).inserted else {
            return .broken("the same paginationToken twice")
        }
        guard pages < pagesMax else { return .broken("more than \(pagesMax) pages of one span") }
        return .next(token: token)
    }
}
