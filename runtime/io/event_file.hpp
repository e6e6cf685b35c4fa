#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/io/file_system.hpp"

namespace millrace::runtime {

/// The scalars of one step with the names that TensorBoard shows, such as "train/loss".
using EventScalars = std::vector<std::pair<std::string, double>>;

/// Histograms of one step: the number of times that 0, 1, 2, … occurred, by the name that TensorBoard shows.
using EventHistograms = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

/// A TFRecord: length, its masked CRC, the data, their masked CRC; little-endian.
[[nodiscard]] std::string to_record(std::string_view data);

/// A file of TensorBoard events: tensorflow.Event messages in TFRecord framing, encoded by hand (event.proto, summary.proto). The
/// first event says "brain.Event:2". The second says at which step the run starts: TensorBoard then hides what earlier files of
/// the folder have of that step and later ones, so that a resumed run replaces what a killed run wrote after its last checkpoint.
/// One writer. Errors: Error(storage).
class EventFile {
 public:
  /// Creates a new file in `folder`, with a name that sorts after all others there, for a run whose next step is `first_step`
  /// (the first step of a run is 1). `now`: seconds since 1970.
  EventFile(const std::string& folder, std::int64_t first_step, double now);

  /// Appends one event, written whole or not at all. Scalars are stored as floats.
  void append(std::int64_t step, double now, const EventScalars& scalars, const EventHistograms& histograms = {});
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  File file_;
};

}  // namespace millrace::runtime
