#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/base/device.hpp"

namespace millrace::kernels {

/// Work enqueued on one stream runs in order; different streams run concurrently. `background` is for long copies (snapshots)
/// that must not delay copies that somebody waits for.
enum class StreamKind : std::uint8_t { compute, copy_in, copy_out, background };
inline constexpr std::size_t stream_kind_count = 4;

/// What a run may ask of its devices; a device ignores what it does not have.
struct DeviceOptions {
  bool tf32 = false;                 // products of f32 may round their operands to tf32
  std::string choices;               // file that caches the fastest algorithm of each product; empty: the library's first proposal is used
  bool graphs = true;                // an action of a stage that has run before is launched as one graph
  bool cudnn = true;                 // attention runs in cuDNN if cuDNN supports it
  std::size_t products = 64U << 20;  // bytes of the workspace of products
};

class DeviceContext;

/// The device's part of an Event.
class EventState {
 public:
  virtual ~EventState() = default;
  virtual void record(DeviceContext& context, StreamKind stream) = 0;
  virtual void wait(DeviceContext& context, StreamKind stream) const = 0;
  [[nodiscard]] virtual bool complete() const = 0;
  [[nodiscard]] virtual float since(const EventState& earlier) const = 0;
};

/// The device's part of a Graph.
class GraphState {
 public:
  virtual ~GraphState() = default;
  virtual void launch(DeviceContext& context) const = 0;
};

/// A rank's device as its worker uses it: streams, and records of what runs on them. On a GPU a call returns when its work is enqueued, and
/// only `drain` blocks. On a CPU every stream is the calling thread: a copy is done when it returns, and there is nothing to wait for.
/// Nothing here allocates after the first use of a shape. Thread: the rank's worker, except `last_operation` and `last_action`.
class DeviceContext {
 public:
  virtual ~DeviceContext() = default;
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  [[nodiscard]] Device device() const noexcept { return device_; }

  /// Enqueues a copy between host memory that the device can reach and the device, or inside the device.
  virtual void copy(StreamKind stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void zero(StreamKind stream, std::byte* to, std::size_t bytes) = 0;
  /// Makes `waiting` wait for all work enqueued on `on` so far.
  virtual void wait(StreamKind waiting, StreamKind on) = 0;
  /// Blocks until all streams are empty; called before the first step and after the last. Throws what `check` throws.
  virtual void drain() = 0;
  /// Throws if a kernel reported an error (Error(data): a token outside the vocabulary) or the device failed (Error(device),
  /// which names `what` as the work that was running). A failure of the device is permanent: this process cannot enqueue anything
  /// more on it.
  virtual void check(const char* what) = 0;

  /// Enqueues, on the compute stream, a record that operation `number` begins; last_operation() returns it after the device has
  /// failed. A device that can only fail together with its host keeps no record, and last_operation() returns 0.
  virtual void set_breadcrumb(std::uint32_t number) = 0;
  [[nodiscard]] virtual std::uint32_t last_operation() const noexcept = 0;
  /// The same for an action, which consists of operations.
  virtual void set_action(std::uint32_t number) = 0;
  [[nodiscard]] virtual std::uint32_t last_action() const noexcept = 0;

  [[nodiscard]] virtual std::unique_ptr<EventState> make_event(bool timed) = 0;

  /// Whether work on the compute stream can be captured once and launched again with one call: the three functions below exist.
  [[nodiscard]] virtual bool graphs() const noexcept { return false; }
  virtual void begin_capture() {}
  /// Null on a device without graphs.
  [[nodiscard]] virtual std::unique_ptr<GraphState> end_capture() { return nullptr; }
  /// Ends a capture and discards it; does nothing if there is none.
  virtual void abandon_capture() noexcept {}

 protected:
  explicit DeviceContext(Device device) noexcept : device_(device) {}

 private:
  Device device_;
};

/// Throws Error(config) for a device that this build or machine does not have.
[[nodiscard]] std::unique_ptr<DeviceContext> make_context(Device device, const DeviceOptions& options = {});
/// The context of a CPU. It has no state, so all ranks and threads share it.
[[nodiscard]] DeviceContext& cpu_context() noexcept;

/// A point in a stream. It may be recorded repeatedly; only construction allocates.
class Event {
 public:
  /// `timed` events can measure the time between them.
  explicit Event(DeviceContext& context, bool timed = false) : state_(context.make_event(timed)) {}
  void record(DeviceContext& context, StreamKind stream) { state_->record(context, stream); }
  /// Makes work enqueued on the stream from now on wait for this point, which may belong to any context of this kind of device.
  void wait(DeviceContext& context, StreamKind stream) const { state_->wait(context, stream); }
  /// True if all work before the point is complete, or nothing was recorded. Does not block. Throws Error(device) if the device
  /// failed.
  [[nodiscard]] bool complete() const { return state_->complete(); }
  /// Device time from `earlier` to this event, in milliseconds; both must be timed and complete.
  [[nodiscard]] float since(const Event& earlier) const { return state_->since(*earlier.state_); }

 private:
  std::unique_ptr<EventState> state_;
};

/// The work enqueued on the compute stream between `begin` and `end`, which one call can launch again.
class Graph {
 public:
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  static void begin(DeviceContext& context) { context.begin_capture(); }
  /// Enqueues nothing: the work since `begin` is only recorded.
  void end(DeviceContext& context) { state_ = context.end_capture(); }
  /// Ends the capture that `begin` started and discards it.
  static void abandon(DeviceContext& context) noexcept { context.abandon_capture(); }
  void launch(DeviceContext& context) const { state_->launch(context); }

 private:
  std::unique_ptr<GraphState> state_;
};

}  // namespace millrace::kernels
