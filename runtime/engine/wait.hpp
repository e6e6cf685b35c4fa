#pragma once

#include <cstdint>
#include <string>

#include "runtime/schedule/action.hpp"

namespace millrace::runtime {

/// Why a rank's next entry has not been issued.
enum class WaitReason : std::uint8_t {
  none,        // no list, or all of it is done
  activation,  // the previous stage has not delivered
  gradient,    // the next stage has not delivered
  credit,      // every slot of the output ring is occupied
  batch,       // the loader has not delivered
  exchange,    // rows of the members of an exchange are not all in
  compute,     // nothing is missing: issued actions are still running
  weights,     // parameters of the stage that other replicas updated are not all in
  replicas,    // gradients or gradient sums of the ranks that hold the same weights are not all in
};

[[nodiscard]] const char* to_string(WaitReason reason);
/// Whether ranks that hold the same weights are waited for.
[[nodiscard]] constexpr bool is_for_replicas(WaitReason reason) { return reason == WaitReason::weights || reason == WaitReason::replicas; }

/// What a rank waits for and from which rank: for traces, the stall watch and messages.
struct Wait {
  WaitReason reason = WaitReason::none;
  RankId rank = no_rank;       // the waiting rank
  Action action;               // the action that cannot be issued; for compute the running one
  int segment = 0;             // of the action
  std::int64_t exchange = -1;  // for exchange: its number, counted over the run
  StageId stage = no_stage;    // the stage whose boundary or slot is missing; no_stage if there is none
  RankId peer = no_rank;       // the rank of that stage
};

/// "rank 1 waits for the activation of microbatch 3 from stage 0 on rank 0, before 1F3"
[[nodiscard]] std::string describe(const Wait& wait);

}  // namespace millrace::runtime
