#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/device_context.hpp"
#include "runtime/ids.hpp"

namespace millrace::runtime {

/// The purpose of a section of a rank's arena.
enum class MemoryKind : std::uint8_t {
  // The shard of a stage:
  master,              // fp32 parameters
  copy,                // bf16 and packed copies of the matrices; the rank's own section is the place of those that are only read packed
  state,               // of the optimizer, fp32: all states of all parameters
  accumulator,         // gradient sums; a slot is a whole set
  expert_accumulator,  // those of the weights of experts; a slot is a whole set
  staging,             // of a snapshot: parameters, then states
  square,              // f64: the sum of squares of each gradient
  // The other kinds have one section per rank unless a comment says otherwise:
  workspace,     // shared by all programs of the rank and the optimizer; a second one where lists weave actions
  batch,         // tokens, positions, segments, targets of a microbatch
  scalar,        // f32 scales of the loss terms of all stages
  constant,      // of a stage: one slot per program
  stash_input,   // F to I
  stash_weight,  // F to W
  handoff,       // I to W
  boundary_in,   // boundary tensors of a stage in the sequential trainer; with actors they are in rings
  boundary_out,
  gradient_in,
  gradient_out,
  result,  // of a stage with loss terms or observations: their values, one slot per microbatch
  logits,  // of the last stage, if text is to be generated
  ring,    // of a channel, in its link's layout
  // of a stage: values that rematerialisation offloads, one slot per microbatch in flight, in memory that the host can access
  offload,
  // Where the host cannot access the device's memory: pinned host memory, from or to which the rank copies:
  batch_copy,
  result_copy,
  scalar_copy,
  logits_copy,
  ring_copy,  // of a channel whose link cannot access device memory
  arrivals,   // gradient sums of other replicas, until they are added (Reduction); a slot is what arrives in one step
  leaf,       // the gradients of one microbatch of a stage, until they are added to its sums (train.leaf); stages take turns
  gathered,   // parameters of a stage as programs read them, gathered from those who own them; stages take turns. After the copies
};
inline constexpr std::size_t memory_kind_count = 30;
/// Steps of a reduction that are under way at a time.
inline constexpr int reduction_steps_ahead = 2;
[[nodiscard]] std::string_view to_string(MemoryKind kind);

/// The number of slots of each kind for a stage: from the schedule's ledger and the edges' depths. 0 for a ring whose memory is
/// elsewhere (a neighbour's in the same process).
struct StageSlotCounts {
  int stash_input = 1, stash_weight = 1, handoff = 1;
  int boundary_in = 0, boundary_out = 0, gradient_in = 0, gradient_out = 0;
  int results = 0;
};

/// Bytes of one slot of each kind, from the stage's memory plans.
struct StageMemoryRequest {
  StageId stage;
  StageSlotCounts slots;
  std::size_t master = 0, copy = 0, accumulator = 0, square = 0;  // of its shard
  std::size_t expert_accumulator = 0;
  std::size_t leaf = 0;    // of the gradients of a microbatch; 0: they are added to the sums as they are computed
  std::size_t state = 0;   // all states that the optimizer keeps for its parameters
  std::size_t staged = 0;  // parameters in a snapshot, before the states
  std::size_t stash_input = 0, stash_weight = 0, handoff = 0;
  std::size_t boundary_in = 0, boundary_out = 0, gradient_in = 0, gradient_out = 0;
  std::size_t constant = 0;  // the largest of the stage's programs
  int constants = 1;         // number of programs
  std::size_t logits = 0;
  std::size_t offload = 0;
  std::size_t result = 0;
  std::size_t scalar = 0;  // of the stage's loss terms; one after another in the rank's section
  std::size_t workspace = 0;
  std::size_t batch = 0;
};

/// The ring of a channel that begins or ends on the rank: `bytes` in total, including the link's prefixes.
struct RingDemand {
  int channel = 0;
  std::size_t bytes = 0;
  bool copied = false;  // on a GPU: the link has its own ring in host memory
};

struct RankMemoryRequest {
  int accumulators = 1;         // number of sets
  int expert_accumulators = 1;  // of the weights of experts
  bool training = true;         // accumulators, and the optimizer's states
  bool staging = false;         // with memory for a snapshot
  int batches = 1;              // number of microbatches whose tokens are held at a time
  bool states_on_host = false;  // the optimizer's states are in memory that the host can access
  bool on_device = false;       // the host cannot access the device's memory: two arenas, one on the device and one of pinned host memory
  std::size_t shared_copy = 0;  // bytes of the place of copies that are only read packed
  std::vector<std::size_t> gathered = {};  // bytes of the slots for parameters that are gathered
  std::vector<StageMemoryRequest> stages;
  std::vector<RingDemand> rings;
  int workspaces = 1;  // 2: a list of the rank weaves actions
  int leaves = 1;      // slots for the gradients of a microbatch, if stages have some
  std::size_t arrivals = 0;
};

/// One section: `slots` slots of `slot_bytes` each, one after another.
struct MemorySection {
  MemoryKind kind = MemoryKind::workspace;
  StageId stage = no_stage;    // no_stage: belongs to the rank
  int channel = -1;            // for a ring
  std::size_t offset = 0;      // in the arena of its memory space
  std::size_t slot_bytes = 0;  // a multiple of kernels::kAlignment
  int slots = 0;
  kernels::MemorySpace space = kernels::MemorySpace::host;
  [[nodiscard]] std::size_t bytes() const noexcept { return slot_bytes * static_cast<std::size_t>(slots); }
};

/// The arena of a rank, or its two arenas if the host cannot access the device's memory, planned before anything is allocated. Pure data.
class RankMemoryPlan {
 public:
  explicit RankMemoryPlan(const RankMemoryRequest& demand);
  [[nodiscard]] const std::vector<MemorySection>& sections() const noexcept { return sections_; }
  /// nullptr if the rank has none.
  [[nodiscard]] const MemorySection* find(MemoryKind kind, StageId stage = no_stage) const noexcept;
  /// nullptr if the rank has no ring of that channel.
  [[nodiscard]] const MemorySection* find_ring(int channel, MemoryKind kind = MemoryKind::ring) const noexcept;
  /// Size of the memory that the rank computes in: on the device or, on a CPU, on the host.
  [[nodiscard]] std::size_t total_bytes() const noexcept { return total_; }
  /// Size of the pinned host memory: 0 on a CPU.
  [[nodiscard]] std::size_t pinned_bytes() const noexcept { return pinned_; }
  /// Bytes of a kind over all stages.
  [[nodiscard]] std::size_t bytes(MemoryKind kind) const noexcept;
  /// "stage 0: 1.20 GiB, stage 1: …, weights, gradients, …: 9.40 GiB": for the error message of a plan that does not fit.
  [[nodiscard]] std::string needs() const;
  /// A table: kind, stage, slots, bytes of a slot, bytes; the total below.
  [[nodiscard]] std::string print() const;

 private:
  void add(MemoryKind kind, StageId stage, std::size_t slot_bytes, int slots, int channel = -1);
  void add_shards(const RankMemoryRequest& demand);
  /// In memory that the host can access: pinned memory, or the arena on a CPU.
  void add_readable(MemoryKind kind, StageId stage, std::size_t slot_bytes, int slots);
  /// The same as `add` in pinned memory; does nothing on a CPU.
  void add_pinned(MemoryKind kind, StageId stage, std::size_t slot_bytes, int slots, int channel = -1);
  bool on_device_;
  std::vector<MemorySection> sections_;
  std::size_t total_ = 0, pinned_ = 0;
};

/// The allocated arenas: one buffer each for the lifetime of the rank.
class RankMemory {
 public:
  /// Throws Error(memory) if the system refuses, with the memory that each stage needs.
  explicit RankMemory(RankMemoryPlan plan, kernels::Device device = {});
  [[nodiscard]] const RankMemoryPlan& plan() const noexcept { return plan_; }
  /// Region::master or Region::copy: where the sections of this kind begin, which lie one after another in the order of the stages; those
  /// for what is gathered follow the copies. nullptr if there is none.
  [[nodiscard]] std::byte* region(MemoryKind kind) const noexcept;
  /// The first byte of a slot. Throws Error(internal) for a slot that was not planned.
  [[nodiscard]] std::byte* slot(MemoryKind kind, StageId stage = no_stage, int index = 0) const;
  /// The same; nullptr for a slot that was not planned.
  [[nodiscard]] std::byte* slot_or_null(MemoryKind kind, StageId stage = no_stage, int index = 0) const noexcept;
  /// Where the host reads and writes what programs have in this slot: the slot itself or, if the host cannot access that, its twin in
  /// pinned memory. Throws Error(internal) for a slot that was not planned.
  [[nodiscard]] std::byte* host_slot(MemoryKind kind, StageId stage = no_stage, int index = 0) const;
  /// Where programs write what the host reads in its slot `index`: the same slot. If that has a twin there may be fewer slots on the
  /// device, which are used in turn: so the same addresses recur, and with them graphs. nullptr for a slot that was not planned.
  [[nodiscard]] std::byte* working_slot(MemoryKind kind, StageId stage, int index) const noexcept;
  /// Enqueue the copy of a slot to its twin, or back. Do nothing for a slot that has none.
  void copy_to_host(kernels::DeviceContext& device, kernels::StreamKind stream, MemoryKind kind, StageId stage, int index = 0) const;
  /// The same for `bytes` bytes of a slot from `offset` on.
  void copy_part_to_host(kernels::DeviceContext& device, kernels::StreamKind stream, MemoryKind kind, StageId stage, int index,
                         std::size_t offset, std::size_t bytes) const;
  void copy_to_device(kernels::DeviceContext& device, kernels::StreamKind stream, MemoryKind kind, StageId stage, int index = 0) const;
  /// The whole ring of a channel. Throws Error(internal) if it was not planned.
  [[nodiscard]] std::span<std::byte> ring(int channel) const;
  /// The ring that the channel's link uses: the same, or its copy in host memory.
  [[nodiscard]] std::span<std::byte> link_ring(int channel) const;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return buffer_.bytes(); }
  [[nodiscard]] kernels::Device device() const noexcept { return device_; }

 private:
  [[nodiscard]] const MemorySection* twin(MemoryKind kind, StageId stage) const noexcept;  // nullptr if there is none
  [[nodiscard]] const kernels::Buffer& arena(const MemorySection& section) const noexcept {
    return section.space == kernels::MemorySpace::pinned_host ? pinned_ : buffer_;
  }
  RankMemoryPlan plan_;
  kernels::Device device_;
  kernels::Buffer buffer_, pinned_;
};

}  // namespace millrace::runtime
