package import Postgres

/// The halt of a batch's storefront after refusals with one code.
package enum StorefrontHalt {
    /// The condition that the change `change` of the batch `b` waits for its storefront. All changes of a halted
    /// storefront do, except the probe.
    package static func holds(_ change: SQL) -> SQL {
        """
        (b.halted_storefronts ? \(fragment: change).storefront
            AND (b.halted_storefronts -> \(fragment: change).storefront ->> 'probe')
                IS DISTINCT FROM \(fragment: change).change_id::text)
        """
    }
}
