#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/io/file_system.hpp"

namespace millrace::runtime {

/// Named numbers of one step, as TensorBoard draws them: "train/loss".
using EventScalars = std::vector<std::pair<std::string_view, double>>;

/// A TFRecord: length, its masked CRC, the data, their masked CRC; little endian.
[[nodiscard]] std::string to_record(std::string_view data);

/// A file of TensorBoard events: tensorflow.Event messages in TFRecord framing, encoded by hand (event.proto, summary.proto). The first
/// says "brain.Event:2". The second says that the run starts at a step: of what earlier files of the folder have of that step and later
/// ones, TensorBoard shows nothing, so that a resumed run replaces what a killed one got to beyond its last checkpoint. One writer.
/// Errors: Error(storage).
class EventFile {
 public:
  /// Begins a new file in `folder`, whose name is behind those of all others there, for a run whose next step is `first_step` (the first
  /// one is step 1). `now`: seconds since 1970.
  EventFile(const std::string& folder, std::int64_t first_step, double now);

  /// Handed to the system as one record, whole or not at all. Numbers are floats in the file.
  void append(std::int64_t step, double now, const EventScalars& scalars);
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  File file_;
};

}  // namespace millrace::runtime
