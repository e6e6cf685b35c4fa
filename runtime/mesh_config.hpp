#pragma once

#include <cstdint>

namespace millrace::runtime {

/// [mesh]: how many copies of the pipeline train together, and what they share.
struct MeshConfig {
  std::int64_t data = 0;    // copies; 0: as many as expert
  std::int64_t expert = 1;  // ranks that share the experts of a layer
  double capacity = 0;      // of each for rows of others (runtime::ExpertGroup): the key experts.capacity

  /// The number of copies.
  [[nodiscard]] std::int64_t copies() const noexcept { return data > 0 ? data : expert; }
  bool operator==(const MeshConfig&) const = default;
};

}  // namespace millrace::runtime
