#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/shard_layout.hpp"
#include "runtime/ids.hpp"

namespace millrace::runtime {

/// Those who hold the same weights of a stage and divide their update, as one of them sees it.
struct StageReplicas {
  StageId stage;
  bool experts = false;     // the weights of experts; false: all others
  std::vector<int> copies;  // by member: which of the copies it is whose parts are added (GlobalOrder)
  int own = 0;              // this rank, among the members
  int model_stage = 0;      // the stage's place in the model, by which parameters are gathered
};

/// Bytes of one exchange, by member: what goes to each, and where what comes from each is written.
struct TransferTable {
  explicit TransferTable(std::size_t members) : send_at(members), send_bytes(members), receive_at(members), receive_bytes(members) {}
  std::vector<std::int64_t> send_at, send_bytes, receive_at, receive_bytes;
};

/// A step of the reduction of a bucket: of what each member owns of it, one run. Each gets the others' sums of its own run, and adds all of
/// them in the order of the tree (sum_tree.hpp); or the others' gradients of a microbatch each (ShardLayout::leaves), which it adds to its
/// sum in the order of the microbatches.
struct ReductionStep {
  StageId stage;
  bool experts = false;
  bool leaves = false;
  /// One exchange: of the n-th gradient sum of each member.
  struct Sum {
    int set = -1;  // of this rank, from which it sends; -1: it has none, and sends nothing. With leaves 0, of its leaf
    TransferTable table;
  };
  std::vector<Sum> sums;
  std::size_t begin = 0, bytes = 0;  // of this rank's run, in what programs add to
  std::size_t kept = 0;              // … in the sums that it keeps
  /// A sum of this rank's run: in a set of its own, in its leaf, or where it arrived.
  struct Operand {
    static constexpr int arrived = -1, leaf = -2;
    int set = arrived;      // or one of these
    std::size_t place = 0;  // of what arrived: in the step's arrivals
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  struct Addition {
    Operand into, from;
    friend bool operator==(const Addition&, const Addition&) = default;
  };
  std::vector<Addition> additions;  // in order; the sum ends in set 0
  std::size_t arrivals = 0;         // bytes of all that arrives
  bool last = false;                // of its bucket: all of the bucket has left, and what others own of sets may be cleared
  std::size_t bucket = 0;           // in ShardLayout::buckets of the stage
};

/// The parameters of a bucket, after the update or, with divided masters, before they are used: each member gets from the others what they
/// own, in place.
struct GatherStep {
  StageId stage;
  bool experts = false;
  bool to_slot = false;    // with divided masters: the places are in Region::copy; false: in Region::master
  std::size_t begin = 0;   // … to which the table's are relative
  std::size_t bucket = 0;  // in ShardLayout::buckets of the stage
  TransferTable table;
};

/// The exchanges of one stage: steps or gathers [begin, end).
struct StageTransfers {
  StageId stage;
  std::size_t begin = 0, end = 0;
};

/// How replicas add gradients and hand out what they updated: the exchanges of a rank in a step, in an order that all members of its groups
/// share. Pure data.
struct Reduction {
  std::vector<ReductionStep> steps;
  std::vector<StageTransfers> reduced;  // all stages of the rank, in the order in which they are reduced
  std::vector<GatherStep> gathers;
  std::vector<StageTransfers> gathered;  // all stages of the rank in the order of the model, each after those whose tables it reads

  [[nodiscard]] bool empty() const noexcept { return steps.empty(); }
  /// Bytes of the arrivals of the largest step.
  [[nodiscard]] std::size_t arrivals() const noexcept;
};

/// `replicas` are in the order in which the members reduce their stages; `shards` those of the rank. `backward`: the program that makes the
/// gradients of weights; the buckets of a stage are reduced in the order in which it completes them. `sets` and `expert_sets` are the
/// numbers of gradient sums of each rank, of `copies` and `expert_copies` copies. A run has at most `window` bytes, a multiple of
/// sizeof(float).
struct ReductionInput {
  std::span<const ShardLayout> shards;
  std::span<const StageReplicas> replicas;
  int sets = 1, expert_sets = 1;
  int copies = 1, expert_copies = 1;
  std::size_t window = 0;
  ProgramKind backward = ProgramKind::backward;
};
/// The steps and gathers of one rank. Throws Error(internal) for replicas of a stage that is not among the shards.
[[nodiscard]] Reduction make_reduction(const ReductionInput& input);

}  // namespace millrace::runtime
