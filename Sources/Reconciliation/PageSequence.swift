package import AppStore

/// The pages of one request: which one comes next, and whether they end. It is a value type: a page goes in, a step
/// comes out.
package struct PageSequence: Sendable {
    package enum Step: Hashable, Sendable {
        case next(token: String)
        case done
        /// The pages go round in a circle, or never end.
        case broken(String)
    }

    private let pagesMax: Int
    private var tokens: Set<String> = []
    private var pages = 0

    /// - Parameters:
    ///   - token: The token of the first page that will be asked for; nil for the very first page.
    ///   - pagesMax: More pages than any request can have.
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
