package import AppStore

/// The pages of one question: which one comes next, and whether they lead anywhere. It is a value: a page goes in, a
/// step comes out.
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
    ///   - pagesMax: A number of pages that no question can have.
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
