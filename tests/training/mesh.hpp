#pragma once

#include "tests/training/layouts.hpp"

namespace millrace::tests {

/// A pipeline, of which several copies train together.
struct MeshPipeline {
  std::string name;
  int ranks = 1, directions = 1;
  std::vector<std::string> words;
};

[[nodiscard]] const std::vector<MeshPipeline>& mesh_pipelines();

/// `copies` of the pipeline in `processes`, against one rank with as many gradient sums, or `accumulators` if it is not 0.
[[nodiscard]] LayoutCase mesh_run(const MeshPipeline& pipeline, int copies, int processes, bool tied, int accumulators = 0,
                                  const std::string& dtype = "fp32");

/// The same where the copies divide the update of their weights (mesh.shard = optimizer).
[[nodiscard]] LayoutCase divided(LayoutCase one);
/// The same where they divide gradient sums too (mesh.shard = gradients), which has numbers of its own.
[[nodiscard]] LayoutCase divided_sums(LayoutCase one);
/// The same where they divide parameters too (mesh.shard = parameters), and gather those of one stage at a time, or of two.
[[nodiscard]] LayoutCase divided_parameters(LayoutCase one, int slots);

/// A run in so many processes, in another layout than the one rank that it must equal.
struct OtherMesh {
  int processes = 1;
  std::vector<std::string> words;
};

/// Expects the numbers of one rank from a run of run_small() with these keys in each of the meshes.
void expect_one_ranks_numbers(const std::vector<std::string>& keys, const std::vector<OtherMesh>& meshes);

}  // namespace millrace::tests
