#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/device.hpp"

namespace millrace::kernels {

/// The lanes of a queue run beside each other; what is queued on one of them runs in order. `background` takes long copies (snapshots) that
/// must not hold up those that somebody waits for.
enum class StreamKind : std::uint8_t { compute, copy_in, copy_out, background };
inline constexpr std::size_t kStreamKinds = 4;

/// What a GPU is asked to do, in order: a rank's own compute and copy streams, its library handles, and where its kernels leave word of
/// what they found wrong. Nothing here waits for the device but `drain`. Products and attention
/// make their plans when they first see a shape, graphs are made once; nothing else allocates after the constructor.
/// Thread: its rank's worker, except `fault`, which any thread may ask.
class DeviceContext {
 public:
  struct Options {
    bool tf32 = false;                 // f32 products may round their operands to tf32
    std::string choices;               // file that keeps which algorithm was fastest for each product; empty: the library's first proposal
    bool graphs = true;                // a stage's action that ran before is queued as one graph
    bool cudnn = true;                 // attention that cuDNN covers is cuDNN's
    std::size_t products = 64U << 20;  // bytes of the products' workspace
  };
  /// Throws Error(config) for a device that this build or machine lacks.
  DeviceContext(Device device, Options options);
  explicit DeviceContext(Device device) : DeviceContext(device, Options{}) {}
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] bool graphs() const noexcept { return graphs_; }
  /// Bytes of device memory that the queue holds for itself; part of a rank's plan.
  [[nodiscard]] static std::size_t device_bytes(const Options& options) noexcept;

  /// Copies between pinned host memory and the device, or inside the device. Returns at once.
  void copy(StreamKind lane, std::byte* to, const std::byte* from, std::size_t bytes);
  void zero(StreamKind lane, std::byte* to, std::size_t bytes);
  /// What is queued on `waiting` from now on starts after all that is on `on` now.
  void wait(StreamKind waiting, StreamKind on);
  /// Waits until all lanes are empty. Before the first step and after the last; throws what `check` throws.
  void drain();
  /// Leaves word, on the compute lane, that operation `number` begins: what last_operation() returns when the device has failed.
  void set_breadcrumb(std::uint32_t number);
  [[nodiscard]] std::uint32_t last_operation() const noexcept;
  /// The same of a piece of work, of which operations are parts.
  void set_action(std::uint32_t number);
  [[nodiscard]] std::uint32_t last_action() const noexcept;
  /// Throws when a kernel found something wrong (Error(data): a token outside the vocabulary) or the device failed (Error(device), naming
  /// `what` was running). A failed device stays failed: nothing more can be queued on it by this process.
  void check(const char* what);

  /// What only kernels/cuda knows.
  struct State;
  [[nodiscard]] State& state() const noexcept { return *state_; }

 private:
  Device device_;
  bool graphs_;
  std::unique_ptr<State> state_;
};

/// A point in a lane. May be recorded again and again; allocates once, when it is made.
class Event {
 public:
  /// `timed` marks can tell the time between them.
  explicit Event(const DeviceContext& queue, bool timed = false);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;
  void record(DeviceContext& queue, StreamKind lane);
  /// What is queued on the lane from now on starts after this point. Of any queue, also of another device.
  void wait(DeviceContext& queue, StreamKind lane) const;
  /// True when all work before the point is complete, or nothing was recorded. Never blocks. Throws Error(device) when the device failed.
  [[nodiscard]] bool complete() const;
  /// Device time from `earlier` to here, in milliseconds; both timed and complete.
  [[nodiscard]] float since(const Event& earlier) const;

 private:
  void* event_ = nullptr;
  Device device_;
};

/// What was queued on the compute lane between `begin` and `end`, to be queued again with one call.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return graph_ != nullptr; }
  static void begin(DeviceContext& queue);
  /// Queues nothing: what was asked for since `begin` is only remembered.
  void end(DeviceContext& queue);
  /// Ends what `begin` began and forgets it.
  static void abandon(DeviceContext& queue) noexcept;
  void launch(DeviceContext& queue) const;

 private:
  void* graph_ = nullptr;
};

/// One GPU, for `doctor` and for errors.
struct DeviceDescription {
  Device device;
  std::string name;
  std::size_t total_bytes = 0;
  int major = 0, minor = 0;  // compute capability
};
/// Empty where this build has no CUDA kernels or the machine no GPU.
[[nodiscard]] std::vector<DeviceDescription> cuda_devices();
/// Why there is none: "this build has no CUDA kernels", "no CUDA device: …"; empty where there is one.
[[nodiscard]] std::string why_no_cuda();
/// Versions of what computes there, for the run's record; empty without a device.
[[nodiscard]] std::string cuda_libraries();
/// The calling thread's device from here on.
void use_device(Device device);
/// Lets copies between these devices go directly, where the machine's links can; elsewhere CUDA takes them through the host.
void connect_peers(std::span<const Device> devices);
/// Of a GPU, whoever has it: all processes that use it together. Zeros for the CPU. Takes the driver's lock, so not between kernels. Throws
/// Error(device).
struct DeviceMemory {
  std::size_t used = 0, total = 0;  // bytes
};
[[nodiscard]] DeviceMemory device_memory(Device device);

}  // namespace millrace::kernels
