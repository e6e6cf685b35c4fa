#pragma once

#include <string>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/schedule/simulator/layer_assignment.hpp"

namespace millrace::actors {

/// The costs of a model's parts, with their unit.
struct ModelCosts {
  runtime::LayerCosts parts;
  std::string unit;    // "ms" or "GFLOP"
  std::string source;  // described in words
  std::string doubt;   // why the times are not to be believed, and what else this machine did; empty if they are
};

/// Costs by the FLOPs of the programs. Memory time is not included: an embedding's forward counts as free.
[[nodiscard]] ModelCosts flop_costs(const actors::PlanRequest& request);

/// Costs measured by running the programs of the embedding, of decoder layers and of the head on this machine under the
/// conditions of ranks with `threads` threads: as many ranks at once as this machine has cores for (at most the run's number),
/// each with several microbatches in flight. Medians over `repeats` rounds; if these cannot be believed (judge_costs), the least of
/// several measurements. Needs the memory of such ranks with two layers of each kind.
/// Decoder layers of a kind have the same cost.
[[nodiscard]] ModelCosts measured_costs(const actors::PlanRequest& request, int threads, int repeats);

/// Costs from a file with one line per part, `part,F,I,W` or `part,F,I,W,B` in milliseconds; B defaults to I + W. A part is
/// embedding, head, layer (every layer without a line of its own), layer 3, or layer 4-7, counted from 0. Empty lines and lines
/// with # are skipped. Every part must be given once. Error(config) with the line.
[[nodiscard]] ModelCosts read_costs(const std::string& path, int layers);

/// The same from a list of such lines; `place` is used in messages.
[[nodiscard]] runtime::LayerCosts parse_costs(const std::vector<std::string>& lines, const std::string& place, int layers);

/// The lines of such a file; equal layers share a line.
[[nodiscard]] std::vector<std::string> print_costs(const runtime::LayerCosts& costs);

}  // namespace millrace::actors
