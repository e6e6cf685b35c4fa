#pragma once

#include <vector>

#include "runtime/engine/rank_plan.hpp"
#include "runtime/ids.hpp"

namespace millrace::runtime {

/// A stretch of a rank's list during which the parameters of a stage are in its slot, after they were gathered from the replicas that own
/// them (mesh.shard = "parameters"; FSDP: from unshard to reshard).
struct Residence {
  StageId stage;
  int begin = 0, end = 0;  // the entries [begin, end) of the list, of which those of the stage need it
  int free = 0;            // once so many entries are finished, the slot is free, and the parameters may be gathered
  friend bool operator==(const Residence&, const Residence&) = default;
};

/// The slots of a rank, and what they hold. Plain state.
class WeightSlots {
 public:
  /// `slots`: by stage that has one, which.
  struct Of {
    StageId stage;
    int slot = 0;
  };
  explicit WeightSlots(std::vector<Of> slots);

  /// What a list has to gather, in the order in which its entries need it; what a slot holds when the list begins is not gathered. Then the
  /// slots hold what the list leaves there. The result is in `reuse`, whose memory suffices after the first list.
  [[nodiscard]] std::vector<Residence> run(const RankPlan& plan, std::vector<Residence> reuse = {});
  /// The parameters have changed: the slots hold nothing.
  void clear();

 private:
  std::vector<Of> slots_;
  std::vector<StageId> held_;  // by slot
  struct Use {
    int used = 0;     // behind the last entry that read what the slot holds
    int newest = -1;  // its newest residence
  };
  std::vector<Use> uses_;  // by slot, during run()
};

/// By entry of a list: of how many residences the parameters must have been gathered before it begins. The result is in `reuse`.
[[nodiscard]] std::vector<int> residences_needed(const RankPlan& plan, const std::vector<Residence>& residences,
                                                 std::vector<int> reuse = {});

}  // namespace millrace::runtime
