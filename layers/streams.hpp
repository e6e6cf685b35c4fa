#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/dtype.hpp"
#include "runtime/program/port.hpp"
#include "runtime/program/value.hpp"

namespace millrace::layers {

/// One of the tensors that a layer receives from what stands before it: the residual stream, several of them, keys and values that layers
/// share, features that are added in a later layer. Where the model is cut, each stream is a port of the boundary. T: tokens of a
/// microbatch.
struct StreamSpec {
  std::string name = std::string(runtime::hidden_port);
  std::vector<std::int64_t> axes;            // after T: {width} for [T, width], {} for [T]
  std::optional<kernels::DType> dtype = {};  // none: the compute dtype. i32 streams have no gradient
};

/// The tensors that pass from layer to layer, in the order of their boundary. A family with one stream takes and returns a ValueId where
/// others have Streams.
class Streams {
 public:
  Streams() = default;
  Streams(runtime::ValueId hidden) : streams_{{std::string(runtime::hidden_port), hidden}} {}  // NOLINT: one stream is a value
  /// The only stream. Throws Error(internal) if there are others, which a layer that does not know them would drop.
  operator runtime::ValueId() const;  // NOLINT: as above

  /// Throws Error(internal) naming the streams that there are.
  [[nodiscard]] runtime::ValueId at(std::string_view name) const;
  /// Replaces the stream, or appends it.
  void set(std::string_view name, runtime::ValueId value);
  /// The stream ends here. Throws like at().
  void erase(std::string_view name);
  [[nodiscard]] const std::vector<std::pair<std::string, runtime::ValueId>>& all() const noexcept { return streams_; }

 private:
  [[nodiscard]] std::size_t place_of(std::string_view name) const;  // streams_.size() if there is none
  [[nodiscard]] std::size_t known_place(std::string_view name) const;
  std::vector<std::pair<std::string, runtime::ValueId>> streams_;
};

}  // namespace millrace::layers
