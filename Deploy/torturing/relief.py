"""What a person does once the App Store refuses nothing any more."""

REASON = "the refusals are over"

# Batches that are halted, or have rows that wait because they are parked.
WAITING = """
    SELECT DISTINCT b.batch_id FROM repricer.batches b
    LEFT JOIN repricer.price_changes c ON c.batch_id = b.batch_id AND c.state = 'queued'
        AND c.parked_reason IS NOT NULL AND c.next_attempt_at > clock_timestamp()
    WHERE b.state = 'approved' AND (b.halted_by IS NOT NULL OR c.change_id IS NOT NULL)"""


def release(world):
    """What refusals have parked and halted goes on at a person's word: the App Store refuses nothing any more."""
    for row in world.cluster.rows(WAITING):
        world.ask("resume", row["batch_id"], "--reason", REASON, user="ana")


def release_all(world):
    """The same while the trouble goes on: the service may be halted, too, or PostgreSQL away."""
    world.ask("resume", "--all", "--reason", REASON, user="ana")
    release(world)
