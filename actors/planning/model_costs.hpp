#pragma once

#include <string>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/schedule/simulator/partition.hpp"

namespace millrace::actors {

/// What a model's parts cost, with the unit.
struct ModelCosts {
  runtime::LayerCosts parts;
  std::string unit;    // "ms" or "GFLOP"
  std::string source;  // in words
};

/// By the FLOPs of the programs. Says nothing of what a part waits for memory: an embedding's forward is free here.
[[nodiscard]] ModelCosts flop_costs(const actors::PlanRequest& request);

/// By running the programs of the embedding, of decoder layers and of the head here, as ranks of `threads` threads do: as many at once as
/// this machine has cores for (at most the run's), each with several microbatches in flight. Medians over `repeats` rounds. Takes the
/// memory of such ranks of two layers. All decoder layers cost the same.
[[nodiscard]] ModelCosts measured_costs(const actors::PlanRequest& request, int threads, int repeats);

/// From a file: a line a part, `part,F,I,W` or `part,F,I,W,B` in milliseconds, B being I + W where it is not given. A part is embedding,
/// head, layer (every one that is not named), layer 3, or layer 4-7, counted from 0. Empty lines and those with # are passed over. Every
/// part must be there, once. Error(config) with the line.
[[nodiscard]] ModelCosts read_costs(const std::string& path, int layers);

/// The same from such lines, which `place` names.
[[nodiscard]] runtime::LayerCosts parse_costs(const std::vector<std::string>& lines, const std::string& place, int layers);

/// Lines of such a file; equal layers are one line.
[[nodiscard]] std::vector<std::string> print_costs(const runtime::LayerCosts& costs);

}  // namespace millrace::actors
