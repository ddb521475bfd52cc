-- Two approvals that suffice in one order suffice in the other: where whoever approves as the second has done so
-- before the first, the first approval that follows completes both.
-- Locks: none.
-- breaking: no

-- What of these measures is beyond an approver's limits, or their roles' where none names them: of several limits the
-- one that is exceeded least. Empty: nothing; NULL: no limit names them.
CREATE FUNCTION repricer.approver_shortfall(
    p_approver text, p_has_first boolean, p_rows bigint, p_basis_points numeric, p_monthly jsonb
) RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path = repricer, pg_temp
AS $$
    SELECT each.exceeded FROM (
        SELECT l.approver, limits_exceeded(l, p_rows, p_basis_points, p_monthly)
            || CASE WHEN l.needs_first AND NOT p_has_first
                THEN ARRAY[format('%s approves as the second only', l.approver)] ELSE '{}' END AS exceeded
        FROM approval_limits l
        WHERE l.approver = p_approver
            OR NOT EXISTS (SELECT FROM approval_limits o WHERE o.approver = p_approver)
                AND EXISTS (SELECT FROM pg_roles r JOIN pg_roles u ON u.rolname = p_approver
                    WHERE r.rolname = l.approver AND pg_has_role(u.oid, r.oid, 'MEMBER'))) each
    ORDER BY cardinality(each.exceeded), each.approver LIMIT 1
$$;
REVOKE ALL ON FUNCTION repricer.approver_shortfall(text, boolean, bigint, numeric, jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION repricer.approval_shortfall(p_batch_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path = repricer, pg_temp
AS $$
DECLARE
    v_measure record;
    v_exceeded text[];
BEGIN
    IF NOT EXISTS (SELECT FROM approval_limits) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM first_approvals WHERE batch_id = p_batch_id AND approver = session_user) THEN
        RAISE EXCEPTION 'user % has given the first approval; another approver must give the second', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT * INTO v_measure FROM batch_measure(p_batch_id);
    v_exceeded := approver_shortfall(session_user,
        EXISTS (SELECT FROM first_approvals WHERE batch_id = p_batch_id),
        v_measure.rows, v_measure.basis_points, v_measure.monthly_milliunits);
    IF v_exceeded IS NULL THEN
        RAISE EXCEPTION 'user % may not approve: no approval limit names them or a role of theirs', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- Whoever may approve it as the second has done so: this is the first approval that was missing.
    IF v_exceeded = '{}' OR EXISTS (
        SELECT FROM first_approvals f
        WHERE f.batch_id = p_batch_id
            AND approver_shortfall(f.approver, true, v_measure.rows, v_measure.basis_points,
                v_measure.monthly_milliunits) = '{}')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_exceeded;
END
$$;

CREATE OR REPLACE FUNCTION repricer.extension_shortfall(p_extension_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path = repricer, pg_temp
AS $$
DECLARE
    v_rows bigint;
    v_exceeded text[];
BEGIN
    IF NOT EXISTS (SELECT FROM approval_limits) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM mass_extension_approvals
        WHERE extension_id = p_extension_id AND approver = session_user)
    THEN
        RAISE EXCEPTION 'user % has given the first approval; another approver must give the second', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT count(*) INTO v_rows FROM subscriptions s, mass_extensions m
        WHERE m.extension_id = p_extension_id AND s.product_id = m.product_id
            AND (m.storefronts IS NULL OR s.storefront IS NULL OR s.storefront = ANY (m.storefronts))
            AND coalesce(s.status NOT IN (2, 5), true);
    v_exceeded := approver_shortfall(session_user,
        EXISTS (SELECT FROM mass_extension_approvals WHERE extension_id = p_extension_id), v_rows, 0, '{}');
    IF v_exceeded IS NULL THEN
        RAISE EXCEPTION 'user % may not approve: no approval limit names them or a role of theirs', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF v_exceeded = '{}' OR EXISTS (
        SELECT FROM mass_extension_approvals a
        WHERE a.extension_id = p_extension_id AND approver_shortfall(a.approver, true, v_rows, 0, '{}') = '{}')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_exceeded;
END
$$;
