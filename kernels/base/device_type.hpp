#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/backend.hpp"
#include "kernels/base/device.hpp"

/// The table of devices: the properties of each kind of device, and how to get one. Code outside of kernels/ does not compare
/// device kinds; it reads a property from the table, or calls the device's context (kernels/base/device_context.hpp). To add a
/// kind, add a line in kernels/base/devices.inc and a folder that derives DeviceType and DeviceContext and fills its column of the kernel
/// tables; backend.cmake in the folder says how it is compiled.
namespace millrace::kernels {

class DeviceContext;
struct DeviceOptions;

/// The properties of a kind of device that plans and messages depend on. They hold whether or not this build or machine has such a
/// device.
struct DeviceFacts {
  const char* name = "";           // in configurations: "cuda"
  Backend backend = Backend::cpu;  // the backend whose kernels train on it
  const char* title = "";          // the name of its software in messages: "CUDA"
  const char* noun = "";           // the noun for one device in messages: "GPU"
  bool numbered = false;           // a machine may have several, each of which a rank can be assigned to: "cuda:1"
  bool asynchronous = false;       // a call returns when its work is enqueued, not when it is done
  bool host_readable = false;      // the host can access the memory that programs compute in; if not, a rank also has host memory to copy
  bool packs_operands = false;     // its products may read right operands faster from packed copies (kernels/packing.hpp)
  bool adds_bias = false;          // its products add a bias at no cost, as cuBLASLt's epilogue does
};

/// One device of a machine, for `doctor` and for errors.
struct DeviceDescription {
  Device device;
  std::string name;
  std::size_t total_bytes = 0;
  int major = 0, minor = 0;  // compute capability
};

/// Memory of a device, as used by all processes together. Zeros for a CPU.
struct DeviceMemory {
  std::size_t used = 0, total = 0;  // bytes
};

/// A row of the table of devices. This base class represents a kind that is not part of the build: it reports that no device is
/// available. All functions may be called from any thread.
class DeviceType {
 public:
  explicit constexpr DeviceType(const DeviceFacts& facts) noexcept : facts_(facts) {}
  virtual ~DeviceType() = default;
  DeviceType(const DeviceType&) = delete;
  DeviceType& operator=(const DeviceType&) = delete;

  [[nodiscard]] const DeviceFacts& facts() const noexcept { return facts_; }
  /// Why no such device is available: "this build has no CUDA kernels", "no CUDA device: …"; empty if one is.
  [[nodiscard]] virtual std::string why_unavailable() const;
  /// The devices of this machine, by index. Empty if there is none, and for a CPU, which is not numbered.
  [[nodiscard]] virtual std::vector<DeviceDescription> devices() const { return {}; }
  /// Versions of the device's libraries, for the run's record; empty without a device.
  [[nodiscard]] virtual std::string libraries() const { return ""; }
  /// Takes the driver's lock, so it should not be called between kernels. Throws Error(device).
  [[nodiscard]] virtual DeviceMemory memory_in_use(Device) const { return {}; }
  /// Makes it the calling thread's current device, for libraries that have such a notion.
  virtual void select(Device) const {}
  /// Enables direct copies between these devices if the machine's links support them; otherwise copies pass through the host.
  virtual void connect_peers(std::span<const Device>) const {}

  /// Throws Error(config) for a device that this build or machine does not have.
  [[nodiscard]] virtual std::unique_ptr<DeviceContext> make_context(Device device, const DeviceOptions& options) const;
  /// Bytes of device memory that a context reserves for itself; part of a rank's plan.
  [[nodiscard]] virtual std::size_t context_bytes(const DeviceOptions&) const noexcept { return 0; }

  /// Zeroed memory, on the device or pinned on the host. Throws Error(memory), which names the bytes requested and free, or Error(config)
  /// for a device that does not exist.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes, Device device, MemorySpace space) const;
  virtual void release(std::byte* memory, std::size_t bytes, Device device, MemorySpace space) const noexcept;
  /// Copies from ordinary host memory to memory of the device without a context; returns when the copy is done.
  virtual void write(Device device, std::byte* to, std::span<const std::byte> from) const;

 private:
  DeviceFacts facts_;
};

/// All kinds of kernels/base/devices.inc, whether or not this build or machine has such a device.
[[nodiscard]] std::span<const DeviceKind> device_kinds() noexcept;
/// The row of a kind.
[[nodiscard]] const DeviceType& device_type(DeviceKind kind) noexcept;
[[nodiscard]] inline const DeviceType& device_type(Device device) noexcept { return device_type(device.kind); }
/// The facts of a built-in kind, as listed in devices.inc, for the folder that implements it.
[[nodiscard]] const DeviceFacts& known_device(DeviceKind kind) noexcept;

/// Registers a row of the table in place of the default row, which reports that no device is available. Only at namespace scope.
struct InDeviceTable {
  InDeviceTable(DeviceKind kind, const DeviceType& type) noexcept;
};

/// Whether the backend's kernels compute in this device's memory.
[[nodiscard]] bool computes_on(Backend backend, DeviceKind kind) noexcept;

/// The devices of CUDA, which benchmarks and tests ask for by name.
[[nodiscard]] std::vector<DeviceDescription> cuda_devices();
[[nodiscard]] std::string why_no_cuda();

}  // namespace millrace::kernels
