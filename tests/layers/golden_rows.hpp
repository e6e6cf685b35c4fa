#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/io/safetensors.hpp"
#include "tests/layers/model_fixture.hpp"

namespace millrace::layers::testing {

/// The rows of golden.safetensors: packed documents with their own positions and targets if the file has them, otherwise one
/// document per row.
struct GoldenRows {
  explicit GoldenRows(const runtime::SafetensorsFile& golden) {
    const auto& shape = golden.at("input_ids").shape;
    rows = shape[0], sequence = shape[1];
    tokens = read_ids(golden, "input_ids");
    compressed.resize(tokens.size());
    if (golden.find("engram.lookup_table") != nullptr) {
      const auto table = read_ids(golden, "engram.lookup_table");
      for (std::size_t i = 0; i < tokens.size(); ++i) compressed[i] = table.at(static_cast<std::size_t>(tokens[i]));
    }
    if (golden.find("segment_ids") != nullptr) {
      positions = read_ids(golden, "positions"), segments = read_ids(golden, "segment_ids"), targets = read_ids(golden, "targets");
      const auto counted = read_ids(golden, "targets_segmentation");
      for (std::size_t i = 0; i < targets.size(); ++i)
        if (counted[i] == 0) targets[i] = -1;
      return;
    }
    for (std::int64_t i = 0; i < rows * sequence; ++i) {
      positions.push_back(static_cast<std::int32_t>(i % sequence));
      segments.push_back(1);
      targets.push_back(i % sequence == sequence - 1 ? -1 : tokens[static_cast<std::size_t>(i + 1)]);
    }
  }

  /// Microbatches with this many of the rows each.
  [[nodiscard]] runtime::FillBatch batches(std::int64_t of_rows) const {
    return [this, of_rows](std::int64_t m, const runtime::BatchView& batch) {
      const auto size = of_rows * sequence;
      const auto fill = [&](const std::vector<std::int32_t>& from, std::span<std::int32_t> to) {
        std::copy_n(from.begin() + m * size, size, to.begin());
      };
      fill(tokens, batch.tokens), fill(positions, batch.positions), fill(segments, batch.segments), fill(targets, batch.targets);
      fill(compressed, batch.compressed);
    };
  }
  [[nodiscard]] std::int64_t counted() const {
    return std::count_if(targets.begin(), targets.end(), [](std::int32_t target) { return target >= 0; });
  }

  std::int64_t rows = 0, sequence = 0;
  std::vector<std::int32_t> tokens, positions, segments, targets, compressed;
};

}  // namespace millrace::layers::testing
