#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// The memory of a rank, divided by lifetime. A program addresses memory as (region, offset); an execution supplies each region's
/// base.
enum class Region : std::uint8_t {
  master,        // fp32 master parameters of the rank's stages, shard after shard; f32 programs compute with them
  copy,          // their bf16 and packed copies, in the same order, refreshed after the optimizer
  accumulator,   // fp32 gradient sums (parameter, use) of the stage; the base selects the accumulator set
  batch,         // i32 tokens, positions, segments, targets of one microbatch, in this order
  boundary_in,   // slot of the incoming activation ring: the input ports, in their order (runtime/program/port.hpp)
  boundary_out,  // slot of the outgoing activation ring: the output ports; the logits where the program ends in them
  gradient_in,   // slot of the incoming gradient ring
  gradient_out,  // slot of the outgoing gradient ring
  stash_input,   // written in F, last read in I (or B); one slot per microbatch in flight
  stash_weight,  // written in F, last read in W
  handoff,       // written in I, read in W
  workspace,     // lives within one execution; shared by all programs of the rank; includes kernel scratch
  scalar,        // f32 scales of the stage's loss terms
  constant,
  offload,             // in host memory; written in F, read in I (or B); one slot per microbatch in flight
  result,              // the stage's loss terms, f64; one slot per microbatch of the step
  expert_accumulator,  // the same as accumulator for weights of experts, which have sets of their own
};
inline constexpr std::size_t region_count = 17;
[[nodiscard]] std::string_view to_string(Region region);

struct Place {
  Region region = Region::workspace;
  std::size_t offset = 0;
};

/// fused: F, then B. split: F, then I, then W. forward_only: the evaluation program, of which nothing is kept (evaluation,
/// logits).
enum class BackwardMode : std::uint8_t { fused, split, forward_only };

/// Where a parameter lies: its master or copy, and its accumulator for a use. Offsets into
/// Region::master/copy/accumulator/expert_accumulator.
struct ParameterPlaces {
  std::function<Place(const Value&)> parameter;
  std::function<Place(const Value&)> accumulator;
};

/// The place of every value, assigned by liveness; offsets are multiples of kernels::kAlignment. Bounded shapes are sized by
/// their capacity.
struct MemoryPlan {
  BackwardMode mode = BackwardMode::fused;
  std::vector<Place> placements;                         // by value id; values that no program of this mode touches are at (workspace, 0)
  std::array<std::size_t, region_count> region_bytes{};  // size of one slot; 0 for master, copy and the accumulators (ShardLayout)
  std::array<std::size_t, program_kind_count> workspace_bytes{};  // by program, including scratch
  std::array<std::size_t, program_kind_count> scratch_offset{};   // where each program's kernel scratch starts in workspace
  std::array<std::size_t, program_kind_count> scratch_bytes{};
};

/// Throws Error(config), "device cuda has no kernel for top_k (layers.3.mlp.router)", if an operation of the mode's programs calls
/// a kernel that the processor's backend lacks.
[[nodiscard]] MemoryPlan plan_memory(const ProgramSet& programs, BackwardMode mode, const ParameterPlaces& places,
                                     const kernels::Processor& processor);

/// Offset of "tokens", "positions", "segments" or "targets" in Region::batch for microbatches of `tokens` = T tokens; for "end"
/// the region's size.
[[nodiscard]] std::size_t batch_offset(std::string_view field, std::int64_t tokens);

/// Whether the plan's mode runs programs of this kind.
[[nodiscard]] bool runs(BackwardMode mode, ProgramKind kind);

/// Writes the constants' data into Region::constant, whose base is `base`.
void write_constants(const ProgramSet& programs, const MemoryPlan& plan, std::byte* base, kernels::Device device = {});

/// Size of a value at its capacity, in bytes.
[[nodiscard]] std::size_t bytes_of(const ValueType& type);

}  // namespace millrace::runtime
