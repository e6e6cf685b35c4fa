#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/device.hpp"

namespace millrace::kernels {

/// Work enqueued on one stream runs in order; different streams run concurrently. `background` is for long copies (snapshots)
/// that must not delay copies that somebody waits for.
enum class StreamKind : std::uint8_t { compute, copy_in, copy_out, background };
inline constexpr std::size_t kStreamKinds = 4;

/// A rank's GPU: its own compute and copy streams, its library handles, and the device memory where kernels report errors. Only
/// `drain` blocks. GEMM and attention plans are created when a shape is first seen, and graphs are captured once; nothing else
/// allocates after construction. Thread: the rank's worker, except `fault`, which any thread may call.
class DeviceContext {
 public:
  struct Options {
    bool tf32 = false;    // products of f32 may round their operands to tf32
    std::string choices;  // file that caches the fastest algorithm of each product; empty: the library's first proposal is used
    bool graphs = true;   // an action of a stage that has run before is launched as one graph
    bool cudnn = true;    // attention that cuDNN supports runs in cuDNN
    std::size_t products = 64U << 20;  // bytes of the workspace of products
  };
  /// Throws Error(config) for a device that this build or machine does not have.
  DeviceContext(Device device, Options options);
  explicit DeviceContext(Device device) : DeviceContext(device, Options{}) {}
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] bool graphs() const noexcept { return graphs_; }
  /// Bytes of device memory that the context reserves for itself; part of a rank's plan.
  [[nodiscard]] static std::size_t device_bytes(const Options& options) noexcept;

  /// Enqueues a copy between pinned host memory and the device, or inside the device. Does not block.
  void copy(StreamKind lane, std::byte* to, const std::byte* from, std::size_t bytes);
  void zero(StreamKind lane, std::byte* to, std::size_t bytes);
  /// Makes `waiting` wait for all work enqueued on `on` so far.
  void wait(StreamKind waiting, StreamKind on);
  /// Blocks until all streams are empty; called before the first step and after the last. Throws what `check` throws.
  void drain();
  /// Enqueues, on the compute stream, a record that operation `number` begins; last_operation() returns it after the device has
  /// failed.
  void set_breadcrumb(std::uint32_t number);
  [[nodiscard]] std::uint32_t last_operation() const noexcept;
  /// The same for an action, which consists of operations.
  void set_action(std::uint32_t number);
  [[nodiscard]] std::uint32_t last_action() const noexcept;
  /// Throws if a kernel reported an error (Error(data): a token outside the vocabulary) or the device failed (Error(device),
  /// which names `what` as the work that was running). A failure of the device is permanent: this process cannot enqueue anything
  /// more on it.
  void check(const char* what);

  /// State that only kernels/cuda can see.
  struct State;
  [[nodiscard]] State& state() const noexcept { return *state_; }

 private:
  Device device_;
  bool graphs_;
  std::unique_ptr<State> state_;
};

/// A point in a stream. It may be recorded repeatedly; only construction allocates.
class Event {
 public:
  /// `timed` events can measure the time between them.
  explicit Event(const DeviceContext& queue, bool timed = false);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;
  void record(DeviceContext& queue, StreamKind lane);
  /// Makes work enqueued on the stream from now on wait for this point, which may belong to any context, including another
  void wait(DeviceContext& queue, StreamKind lane) const;
  /// True if all work before the point is complete, or nothing was recorded. Does not block. Throws Error(device) if the device
  /// failed.
  [[nodiscard]] bool complete() const;
  /// Device time from `earlier` to this event, in milliseconds; both must be timed and complete.
  [[nodiscard]] float since(const Event& earlier) const;

 private:
  void* event_ = nullptr;
  Device device_;
};

/// The work enqueued on the compute stream between `begin` and `end`, which one call can launch again.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return graph_ != nullptr; }
  static void begin(DeviceContext& queue);
  /// Enqueues nothing: the work since `begin` is only recorded.
  void end(DeviceContext& queue);
  /// Ends the capture that `begin` started and discards it.
  static void abandon(DeviceContext& queue) noexcept;
  void launch(DeviceContext& queue) const;

 private:
  void* graph_ = nullptr;
};

/// Describes a GPU, for `doctor` and for errors.
struct DeviceDescription {
  Device device;
  std::string name;
  std::size_t total_bytes = 0;
  int major = 0, minor = 0;  // compute capability
};
/// Empty if this build has no CUDA kernels or the machine has no GPU.
[[nodiscard]] std::vector<DeviceDescription> cuda_devices();
/// Why no CUDA device is available: "this build has no CUDA kernels", "no CUDA device: …"; empty if one is.
[[nodiscard]] std::string why_no_cuda();
/// Versions of the CUDA libraries, for the run's record; empty without a device.
[[nodiscard]] std::string cuda_libraries();
/// Selects the device of the calling thread.
void use_device(Device device);
/// Enables direct copies between these devices if the machine's links support them; otherwise CUDA copies through the host.
void connect_peers(std::span<const Device> devices);
/// Memory of a GPU, as used by all processes together. Zeros for the CPU. Takes the driver's lock, so it should not be called
/// between kernels. Throws Error(device).
struct DeviceMemory {
  std::size_t used = 0, total = 0;  // bytes
};
[[nodiscard]] DeviceMemory device_memory(Device device);

}  // namespace millrace::kernels
