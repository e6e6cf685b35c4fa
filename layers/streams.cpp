#include "layers/streams.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::layers {
namespace {

constexpr const char* stream_component = "layers.streams";

std::string stream_names(const std::vector<std::pair<std::string, runtime::ValueId>>& streams) {
  std::string names;
  for (const auto& [name, value] : streams) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

std::size_t Streams::place_of(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::find(streams_, name, &std::pair<std::string, runtime::ValueId>::first) - streams_.begin());
}

std::size_t Streams::known_place(std::string_view name) const {
  const std::size_t place = place_of(name);
  MILLRACE_CHECK(place < streams_.size(), ExitCode::internal, stream_component, "a layer reads the stream '{}', the streams are: {}", name,
                 stream_names(streams_));
  return place;
}

Streams::operator runtime::ValueId() const {
  MILLRACE_CHECK(streams_.size() == 1, ExitCode::internal, stream_component, "a layer takes one stream and receives {}: {}",
                 streams_.size(), stream_names(streams_));
  return at(runtime::hidden_port);
}

runtime::ValueId Streams::at(std::string_view name) const { return streams_[known_place(name)].second; }

void Streams::set(std::string_view name, runtime::ValueId value) {
  const std::size_t place = place_of(name);
  if (place == streams_.size()) return streams_.emplace_back(name, value), void();
  streams_[place].second = value;
}

void Streams::erase(std::string_view name) { streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(known_place(name))); }

}  // namespace millrace::layers
