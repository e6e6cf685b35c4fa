#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/dtype.hpp"
#include "kernels/base/shape.hpp"
#include "kernels/optimizer_tensors.hpp"
#include "runtime/engine/ownership.hpp"
#include "runtime/ids.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/program/memory_plan.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// One use of a weight by a stage of the rank, as declared by the model.
struct StageParameter {
  std::string name;
  kernels::Shape shape;
  StageId stage;
  int use = 0;         // 1: the output head's use of a tied table
  int order = 0;       // index of the tensor in the whole model's list
  bool decays = true;  // weight decay applies
  bool copy = false;   // belongs to a stage of a second replica: another rank holds the weight too
  /// Whether the stage's programs read it as it is, packed, and packed transposed (WeightForm).
  bool plain = true;
  std::array<bool, 2> packed{};
  bool in_f32 = false;      // programs read it in fp32 whatever they compute in, as the layer that declares it says
  std::string router = {};  // of a bias by which a router chooses: the scope of the router's observation; empty: it is none
  bool trained = true;      // false: its gradient stays 0, and optimizers leave it as it is
  ScoreMatrix scores = {};  // of a matrix that QK-clip scales
  kernels::MatrixForm matrices = {};
  ExpertSlice experts = {};  // of a weight of experts: those that the stage has
  bool tied = false;         // other stages, perhaps of other ranks, use the weight too
  GroupScalars group = {};   // of its group
};

/// The parameters declared by a stage's programs, in their order, for stages that are written by hand. Matrices decay.
[[nodiscard]] std::vector<StageParameter> parameters_of(const ProgramSet& programs, StageId stage);

inline constexpr std::size_t no_state = static_cast<std::size_t>(-1);

/// A weight that a rank holds once, whichever of its stages use it. It lies in the shard of the stage with the lowest use.
struct StoredParameter {
  struct Use {
    StageId stage;
    int use = 0;
    bool copy = false;
    std::size_t accumulator = 0;  // bytes from the start of what programs of that stage add to: a set, one of those of experts, a leaf
    std::size_t kept = 0;         // … of a set, where what the rank keeps of the sum begins
    // How programs of the stage read it, as in StageParameter; and, if masters are divided, where, in Region::copy. Several uses by one
    // stage share the places of its first one.
    bool plain = false;
    std::array<bool, 2> packed{};
    std::size_t gathered = 0;
    std::array<std::size_t, 2> packed_gathered{};
  };
  std::string name;
  kernels::Shape shape;
  int order = 0;
  bool decays = true;
  bool copied = false;     // has a bf16 copy that programs compute with, or from which its packed forms are made
  std::size_t offset = 0;  // in Region::master, of what the rank holds (held())
  std::size_t copy = 0;    // in Region::copy; one place shared by all of the rank that are only read packed
  bool plain = false;      // the forms that programs read, as in StageParameter
  std::array<bool, 2> packed{};
  bool in_f32 = false;                       // as in StageParameter
  std::array<std::size_t, 2> packed_copy{};  // in Region::copy
  std::vector<Use> uses;                     // ascending; two if both uses of a tied table are on this rank
  std::string router;                        // as in StageParameter
  bool trained = true;                       // as in StageParameter
  kernels::MatrixForm matrices = {};
  ScoreMatrix scores = {};               // as in StageParameter
  ExpertSlice experts = {};              // as in StageParameter
  bool tied = false;                     // as in StageParameter
  GroupScalars group = {};               // as in StageParameter
  bool divided = false;                  // the replicas that hold it divide its update: each has the states of what it owns
  ElementRange owned = {};               // what this rank updates; all of it unless it is divided
  bool sums_divided = false;             // the rank keeps gradient sums of what it owns alone
  bool masters_divided = false;          // it has masters of what it owns alone; programs read what replicas gather before (Use::gathered)
  std::size_t staged = 0;                // where what it owns of the values begins in the parameters of the stage's snapshot
  std::vector<std::size_t> states = {};  // where each of the optimizer's states begins in the stage's; no_state: it has none

  [[nodiscard]] std::size_t elements() const noexcept { return static_cast<std::size_t>(shape.elements()); }
  [[nodiscard]] std::size_t bytes() const noexcept { return elements() * sizeof(float); }
  /// The parts that hashes take one by one, since ranks may share the tensor by them: the experts of a weight of experts, else 1.
  [[nodiscard]] std::int64_t parts() const noexcept { return experts.present() ? shape[0] : 1; }
  /// The pieces by which sums over it are taken; the parts begin with pieces of their own.
  [[nodiscard]] Pieces pieces() const noexcept { return {shape.elements(), parts()}; }
  [[nodiscard]] ElementRange whole() const noexcept { return {0, shape.elements()}; }
  /// The elements of whose gradient the rank keeps sums.
  [[nodiscard]] ElementRange kept() const noexcept { return sums_divided ? owned : whole(); }
  /// The elements of which the rank has masters.
  [[nodiscard]] ElementRange held() const noexcept { return masters_divided ? owned : whole(); }
  /// The type in which programs read it.
  [[nodiscard]] kernels::DType read_type() const noexcept { return copied ? kernels::DType::bf16 : kernels::DType::f32; }
  /// The use with the places from which programs of a stage read it, if masters are divided. Throws Error(internal) if it has none.
  [[nodiscard]] const Use& first_use_by(StageId stage) const;
  /// The same elements, counted over the whole tensor: of a weight of experts over all experts, whoever has them.
  [[nodiscard]] ElementRange in_model(const ElementRange& elements) const noexcept {
    const std::int64_t before = experts.present() ? shape.elements() / shape[0] * experts.first : 0;
    return {before + elements.first, elements.count};
  }
  /// What of its gradient this rank reports, and of its values and states it saves: each element is reported by one of those who hold it.
  [[nodiscard]] ElementRange reported() const noexcept {
    if (divided) return has_use(0) ? owned : ElementRange{};
    return is_owner() ? whole() : ElementRange{};
  }
  [[nodiscard]] bool has_use(int use) const noexcept;
  /// Whether it has this state of the optimizer, by its index in Optimizer::states().
  [[nodiscard]] bool has_state(std::size_t state) const noexcept { return state < states.size() && states[state] != no_state; }
  /// The stage whose shard holds the weight: for a tied table with both uses on this rank, the embedding's.
  [[nodiscard]] StageId home() const noexcept { return uses.front().stage; }
  /// True on exactly one of the ranks that hold the tensor, for a tied table on two ranks the embedding's, for replicas the first one's: it
  /// tells of the values, which are the same on all. Unless the tensor is divided it also reports and saves it (reported()).
  [[nodiscard]] bool is_owner() const noexcept;
};

/// Where the weights, optimizer states and gradient sums of one stage lie. Pure data. Masters and copies of a rank's stages are one region
/// each, shard after shard, so that a program can read a tied table where another stage of the rank has it; everything else is
/// addressed within the stage.
struct ShardLayout {
  /// The stage's part of a region, in bytes.
  struct Part {
    std::size_t begin = 0, bytes = 0;
  };
  /// What the rank keeps of the gradient sum of one use of a weight by this stage.
  struct Accumulator {
    kernels::Shape shape;    // of the weight
    ElementRange kept;       // elements of it
    std::size_t offset = 0;  // in a set of this stage
    bool experts = false;    // in a set of those of experts
  };

  /// Consecutive gradient sums of this stage which replicas add together. What a member owns of them is one stretch of memory, and so it is
  /// of the parameters.
  struct Bucket {
    bool experts = false;           // in a set of those of experts
    std::vector<std::size_t> cuts;  // in bytes of what programs add to, one more than members: member m owns cuts[m] to cuts[m + 1]
    std::size_t kept = 0;           // where the rank's own stretch begins in a set
    std::size_t master = nowhere;   // where the same parameters begin in Region::master; nowhere: another bucket's are the same, or
                                    // masters are divided
    /// With divided masters, unless another bucket's parameters are the same: the places in Region::copy where they are gathered, by member
    /// as in `cuts`; and what the rank owns of them.
    std::vector<std::size_t> gathered = {};
    struct OwnRun {
      std::size_t master = 0, gathered = 0;  // in the two regions
      std::int64_t elements = 0;
      kernels::DType type = kernels::DType::f32;  // as programs read it
    };
    std::vector<OwnRun> own = {};
    /// By program: its operation after which a microbatch has added to all of the bucket (note_completion).
    std::array<std::size_t, program_kind_count> complete{};
  };
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  /// Parameters as a snapshot takes them: bytes of Region::master, and where they go in staging.
  struct StagedRun {
    std::size_t from = 0, to = 0, bytes = 0;
  };

  StageId stage;
  std::vector<StoredParameter> tensors;   // whose home this stage is, in model order
  std::vector<StoredParameter> borrowed;  // which its programs read in the shard of another stage of the rank
  std::vector<Accumulator> accumulators;  // of this stage's uses of both, in model order, those of experts last
  Part master;                            // of Region::master
  Part copy;                              // of Region::copy, but for what is gathered
  int slot = -1;                          // where its parameters are gathered (RankShards::slots); -1: it has masters of all of them
  std::size_t slot_bytes = 0;             // … as many of it as it needs
  std::size_t accumulator_bytes = 0;      // of all that programs add to, but for weights of experts: of one set, or of a leaf
  std::size_t kept_bytes = 0;             // of one set: the same, unless replicas divide the sums
  std::size_t expert_accumulator_bytes = 0;
  bool leaves = false;        // programs add to the gradients of one microbatch (MemoryKind::leaf), which are then added to the sums
  bool divides_sums = false;  // … by replicas, each of which adds what it owns
  // How many copies of the model, and of each expert, have the parts of the gradients that are not here (GlobalOrder).
  int copies = 1, expert_copies = 1;
  std::size_t state_bytes = 0;         // of all states of the optimizer, of what the rank owns
  std::size_t staged_bytes = 0;        // of what it owns of the parameters, as a snapshot has it
  std::vector<StagedRun> staged_runs;  // … and where that is
  std::vector<Bucket> buckets;         // of the weights that replicas divide, dense ones first

  /// The number of pieces that this rank reports (StoredParameter::reported).
  [[nodiscard]] std::size_t reported_pieces() const;
  /// A tensor whose home this stage is. Throws Error(internal) if there is none of this name.
  [[nodiscard]] const StoredParameter& at(std::string_view name) const;
  [[nodiscard]] const StoredParameter* find(std::string_view name) const noexcept;
  /// Where the stage's programs find what they read, borrowed tables included. The layout must outlive it.
  [[nodiscard]] ParameterPlaces places() const;
};

/// The shards of a rank.
struct RankShards {
  std::vector<ShardLayout> stages;  // in the order of the stages
  std::size_t shared_copy = 0;      // bytes, after the last stage's copies: the place of those that are only read packed
  std::vector<std::size_t> slots;   // bytes, after that: the places in which stages take turns with the parameters that they gather
};

/// How replicas divide the update of their weights, and who they are; one member: they do not.
struct ShardDivision {
  Replicas replicas, expert_replicas = {};  // of all weights but those of experts; of those
  std::size_t bucket_bytes = 0;             // of gradient sums that are added together: this many or a few more, where there are as many
  bool sums = false;                        // each keeps the sums of what it owns alone; of weights of experts all sums
  int slots = 0;              // each has masters of what it owns alone, and gathers those of so many stages; 0: of all weights
  bool whole_scores = false;  // the matrices that QK-clip scales have one owner each

  /// Whether the weights, of experts or all others, are divided.
  [[nodiscard]] bool divides(bool experts) const noexcept { return (experts ? expert_replicas : replicas).members > 1; }
  [[nodiscard]] bool divides_masters(bool experts) const noexcept { return slots > 0 && divides(experts); }
};

/// Finds in the stage's programs when its buckets are complete.
void note_completion(ShardLayout& shard, const ProgramSet& programs);

/// The elements at whose multiples a weight is divided: an expert; a whole tensor that the optimizer treats as matrices; else a chunk of
/// those that are hashed (hash_chunk_bytes), of the smallest of its states.
[[nodiscard]] std::int64_t division_unit(const kernels::Shape& shape, bool experts, const kernels::MatrixForm& matrices,
                                         const Optimizer* optimizer);

/// Lays out the shards of a rank's stages; a stage without parameters gets an empty one. With `compute` bf16 every tensor that programs do
/// not read in fp32 gets a copy; each packed form that a stage asks for is a copy too. Copies that are read only to make packed forms
/// share one place, one after another. Parameters that are trained have the states that `optimizer` keeps for them; null: there are none.
/// Where weights are divided the rank has states of what it owns, a run of units (division_unit): so the hashes of a checkpoint are the
/// same whoever writes it. A tied weight is divided by itself, so that all stages that use it divide it alike. Throws Error(internal) for a
/// use that is declared twice on the rank or with two shapes.
/// With divided masters each stage has places for all of its parameters as programs read them, borrowed ones included, in a slot: the n-th
/// stage in slot n mod slots.
[[nodiscard]] RankShards lay_out_shards(std::span<const StageId> stages, const std::vector<StageParameter>& parameters,
                                        kernels::DType compute, const Optimizer* optimizer = nullptr, const ShardDivision& division = {});

}  // namespace millrace::runtime
