#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace::runtime {

/// [mesh]: how many copies of the pipeline train together, and what they share.
struct MeshConfig {
  std::int64_t data = 0;    // copies; 0: as many as expert
  std::int64_t expert = 1;  // ranks that share the experts of a layer
  double capacity = 0;      // of each for rows of others (runtime::ExpertGroup): the key experts.capacity
  // What the ranks that hold the same weights divide: "none"; "optimizer": each has the optimizer's states of a part, and updates it;
  // "gradients": it also keeps the gradient sums of that part alone; or "parameters": and the master weights, and gathers the weights of a
  // stage before it uses them.
  std::string shard = "none";
  std::int64_t weight_slots = 2;              // with "parameters": of so many stages a rank has the weights at a time
  std::size_t window = std::size_t{4} << 20;  // bytes of gradient sums that a rank gets from each other one at a time

  /// The number of copies.
  [[nodiscard]] std::int64_t copies() const noexcept { return data > 0 ? data : expert; }
  bool operator==(const MeshConfig&) const = default;
};

}  // namespace millrace::runtime
