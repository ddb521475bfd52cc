package import Postgres

/// A storefront of a batch that a code has halted.
package enum StorefrontHalt {
    /// Whether the change `change` of the batch `b` waits for its storefront: all do but the one that asks for them.
    package static func holds(_ change: SQL) -> SQL {
        """
        (b.halted_storefronts ? \(fragment: change).storefront
            AND (b.halted_storefronts -> \(fragment: change).storefront ->> 'probe')
                IS DISTINCT FROM \(fragment: change).change_id::text)
        """
    }
}
