//! What a collective is in a timeline.

use fabricsim_collective::Collective;
use fabricsim_report::communication::Movement;

pub(crate) const fn movement_of(collective: Collective) -> Movement {
    match collective {
        Collective::AllReduce => Movement::AllReduce,
        Collective::AllGather => Movement::AllGather,
        Collective::ReduceScatter => Movement::ReduceScatter,
        Collective::Broadcast => Movement::Broadcast,
        Collective::Reduce => Movement::Reduce,
        Collective::AllToAll | Collective::AllToAllV => Movement::AllToAll,
        Collective::Gather => Movement::Gather,
        Collective::Scatter => Movement::Scatter,
        Collective::SendRecv | Collective::SendRecvPairs | Collective::SendRecvHalves => {
            Movement::SendReceive
        }
    }
}
