#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// The operations of the I/O seam. Each counts as one call.
enum class FileOperation : std::uint8_t {
  open,
  create,
  read,
  write,
  sync,
  truncate,
  rename,
  unlink,
  make_directory,
  remove_directory,
  sync_directory,
  list,
  space,
  lock,
  drop_cache
};

[[nodiscard]] std::string_view to_string(FileOperation operation) noexcept;

/// One file call, as a hook sees it before it happens.
struct FileCall {
  std::uint64_t number = 0;  // counted from 1 over the process since the hook was set
  FileOperation operation = FileOperation::open;
  std::string_view path;
  std::uint64_t bytes = 0;  // for read and write only
  std::string_view target;  // for rename only: the new path
};

/// The status of a process that a fault killed: the one that a shell reports for SIGKILL.
inline constexpr int killed_status = 137;

/// The fault that a hook injects instead of the call.
enum class FileFault : std::uint8_t {
  none,
  io_error,     // fails with EIO
  no_space,     // fails with ENOSPC; a write leaves its first half behind, as on a full disk
  short_write,  // write(2) takes only the first half; the rest is written by the next call, so this is no error
  kill,         // _exit(137); a write leaves its first half behind
  no_progress,  // write(2) takes nothing and reports no error: it returns 0
  unsupported,  // fails with ENOTSUP, as on a file system without locks
};

using FileHook = std::function<FileFault(const FileCall&)>;

/// From now on every file call of this process asks `hook`; an empty hook ends that. The call count restarts at 1. Thread: any,
/// but not while another thread is inside a file call.
void set_file_hook(FileHook hook);

/// Number of file calls since set_file_hook(). 0 while no hook is set: an ordinary run does not count.
[[nodiscard]] std::uint64_t file_calls() noexcept;

/// Called as `hook(name)` at every fault point, from whichever thread reaches it, possibly several at a time. While no hook is
/// set, a fault point costs one predictable branch.
using PointHook = std::function<void(std::string_view name)>;
void set_point_hook(PointHook hook);

/// A named place at which a test may end the process, throw or wait. Names are "room.event": "checkpoint.after_rename".
void fault_point(const char* name);

/// Whether a rule asks for a NaN in this value now; counts the call. `name` is that of an operation's result or of a weight.
[[nodiscard]] bool value_fault(std::string_view name);
/// Whether any rule concerns values. Operations ask value_fault() only if so.
[[nodiscard]] bool value_faults() noexcept;

/// Parses the text of MILLRACE_FAULT or debug.fault and sets all hooks. Rules are separated by ';', the words of a rule by ':'. A rule is
///   io:call=17:enospc            the 17th file call fails          (eio | enospc | short | kill | none_written | enotsup)
///   io:from=17:eio               so does every later one
///   io:path=metrics:op=write:call=2:eio   counts only calls on paths that contain the text, of that operation
///   point=checkpoint.after_rename:hit=3:kill   the third time that the process reaches it (kill | stop | throw)
///   point=stage1.forward:delay=20              waits 20 ms every time, unless hit= or from= is given
///   value=layers.1.mlp.up_proj:from=3:nan      a NaN in this operation's result from its third run on; a weight's name: in the weight
/// `rank=2` in a rule restricts it to that process. Error(usage) for anything else; it does not say where the text is from.
void set_faults(std::string_view text, int process);

/// Calls set_faults(MILLRACE_FAULT) if the variable is set and not empty. The process number is that under mpirun, 0 without.
void set_faults_from_environment();

namespace detail {
/// Called by the I/O seam. Returns FileFault::none while no hook is set.
[[nodiscard]] FileFault ask_file_hook(FileOperation operation, std::string_view path, std::uint64_t bytes, std::string_view target = {});
}  // namespace detail

}  // namespace millrace::runtime
