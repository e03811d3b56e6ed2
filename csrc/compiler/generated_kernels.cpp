#include "compiler/generated_kernels.h"

#define XXH_INLINE_ALL  // no library to link, and nothing to export
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "codegen/codegen.h"

namespace tilewright {

namespace {

// Part of every key: raise it when the same body and schedule give other code.
constexpr const char* kGeneratorVersion = "1";

std::string hash(const std::string& text) {
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, h);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  for (unsigned char b : bytes.digest) result += {kDigits[b >> 4], kDigits[b & 15]};
  return result;
}

bool is_simulated(const Context& ctx) { return ctx.options.target.rfind("sim:", 0) == 0; }

}  // namespace

struct GeneratedKernels::Entry {
  enum class State { kWaiting, kMaking, kMade } state = State::kWaiting;
  int number = 0;  // in order of addition, for dumps
  Graph body;
  Schedule schedule;
  std::shared_ptr<const Artifact> artifact;  // when made without an error
  std::exception_ptr error;
};

GeneratedKernels::GeneratedKernels(Context ctx) : ctx_(std::move(ctx)) {
  if (!is_simulated(ctx_) && !ctx_.gpu.as_ptx) assembler_ = Assembler::load({});
}

GeneratedKernels::~GeneratedKernels() = default;

std::string GeneratedKernels::add(const Graph& body, const Schedule& schedule) {
  const std::string text =
      print(body) + print(schedule) + "\n" + ctx_.gpu.arch + " " + ctx_.options.numerics + " " + kGeneratorVersion;
  std::string key = hash(text);
  std::lock_guard lock(mutex_);
  auto [it, is_new] = entries_.try_emplace(key);
  if (is_new) {
    it->second = std::make_unique<Entry>();
    it->second->number = static_cast<int>(entries_.size()) - 1;
    it->second->body = body.clone();
    it->second->schedule = schedule;
  }
  return key;
}

std::shared_ptr<const Artifact> GeneratedKernels::get(const std::string& key) {
  Entry* entry = nullptr;
  {
    std::unique_lock lock(mutex_);
    auto it = entries_.find(key);
    TW_CHECK(it != entries_.end()) << "no kernel has the key " << key;
    entry = it->second.get();
    made_.wait(lock, [&] { return entry->state != Entry::State::kMaking; });
    if (entry->state == Entry::State::kMade) {
      if (entry->error) std::rethrow_exception(entry->error);
      return entry->artifact;
    }
    entry->state = Entry::State::kMaking;
  }
  std::shared_ptr<const Artifact> artifact;
  std::exception_ptr error;
  try {
    artifact = make(key, *entry);
  } catch (...) {
    error = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    entry->artifact = artifact;
    entry->error = error;
    entry->state = Entry::State::kMade;
  }
  made_.notify_all();
  if (error) std::rethrow_exception(error);
  return artifact;
}

std::shared_ptr<const Artifact> GeneratedKernels::make(const std::string& key, const Entry& entry) {
  KernelCode code = generate(entry.body, entry.schedule, ctx_.gpu.arch, ctx_);
  const LaunchShape shape = launch_shape(entry.body, entry.schedule, ctx_.gpu);

  if (ctx_.dump) {
    std::string number = std::to_string(entry.number);
    const std::string name = "k" + std::string(number.size() < 2 ? 1 : 0, '0') + number;
    ctx_.dump(name + ".tw", print(entry.body));
    ctx_.dump(name + ".schedule.txt", print(entry.schedule) + "\n");
    ctx_.dump(name + ".ll", code.llvm_ir);
    ctx_.dump(name + ".ptx", code.ptx);
  }

  auto artifact = std::make_shared<Artifact>();
  artifact->key = key;
  artifact->entry = code.entry;
  artifact->arch = ctx_.gpu.arch;
  artifact->ptx = std::move(code.ptx);
  for (int i = 0; i < 3; ++i) {
    artifact->grid[i] = shape.grid[i];
    artifact->block[i] = shape.block[i];
  }
  artifact->dynamic_smem_bytes = shape.dynamic_smem_bytes;
  artifact->workspace_bytes = shape.workspace_bytes;
  artifact->zeroed_workspaces = shape.zeroed_workspaces;

  if (assembler_) {
    artifact->machine_code[ctx_.gpu.arch] = assembler_->assemble(artifact->ptx, ctx_.gpu.arch, artifact->entry);
  }
  return artifact;
}

std::vector<std::exception_ptr> GeneratedKernels::generate_all(const std::vector<std::string>& keys, int threads) {
  std::vector<std::exception_ptr> errors(keys.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < keys.size(); i = next++) {
      try {
        get(keys[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  threads = std::min<int>(threads, static_cast<int>(keys.size()));
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return errors;
}

}  // namespace tilewright
