// A host in the place of backends/cute/relayout_device.cuh: runs a kernel's blocks one after another, each thread of a
// block on its own stack up to the next point where threads meet, and watches every access to global memory.
//
// An asynchronous copy lands as late as it may: what it overwrites is spoilt when it is issued, and the bytes come when
// its thread waits for them. Shared memory ends where the process must not read.
#ifndef LEGALSAT_RELAYOUT_DEVICE
#define LEGALSAT_RELAYOUT_DEVICE
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(n)

namespace relayout {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

constexpr int threads = 256;
constexpr int granule = 16;
constexpr int warp = 32;
constexpr int sector = 32;
constexpr std::size_t stack_bytes = 64 << 10, page = 4096, shared_limit = 256 << 10;

struct alignas(granule) Granule {
    u32 word[4];
};

// An allocation and, for every byte of it, whether it belongs to the tensor and how often it was written.
struct Memory {
    u64 start = 0, size = 0;
    u8 const *belongs = nullptr;
    u8 *written = nullptr;
};

struct Copy {
    char *to;
    u64 from;
};

struct Fiber {
    ucontext_t begin;
    std::jmp_buf at;
    std::vector<char> stack = std::vector<char>(stack_bytes);
    bool entered = false, done = false;
    std::vector<Copy> copies;
    std::size_t committed = 0;
};

struct Host {
    Memory source, target;
    std::vector<Fiber> fibers = std::vector<Fiber>(threads);
    std::jmp_buf scheduler;
    std::function<void()> kernel;
    u32 thread = 0, block = 0;
    u64 strays = 0;  // accesses that are misaligned, or touch what belongs to no tensor
    char *shared_end = nullptr, *shared = nullptr;

    Host() {
        char *memory = static_cast<char *>(mmap(nullptr, shared_limit + page, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(memory + shared_limit, page, PROT_NONE);
        shared_end = memory + shared_limit;
    }
};

inline Host host;

inline void enter() {
    host.kernel();
    host.fibers[host.thread].done = true;
    _longjmp(host.scheduler, 1);
}

// Leaves this thread until all others have come as far.
inline void meet() {
    if (!_setjmp(host.fibers[host.thread].at)) _longjmp(host.scheduler, 1);
}

inline void resume(u32 which) {
    Fiber &fiber = host.fibers[which];
    if (fiber.done) return;
    host.thread = which;
    if (_setjmp(host.scheduler)) return;
    if (fiber.entered) _longjmp(fiber.at, 1);
    fiber.entered = true;
    setcontext(&fiber.begin);
}

inline void run_block(u32 number, std::size_t shared_bytes) {
    host.block = number;
    host.shared = host.shared_end - shared_bytes;
    std::memset(host.shared, 0xCD, shared_bytes);
    for (Fiber &fiber : host.fibers) {
        getcontext(&fiber.begin);
        fiber.begin.uc_stack.ss_sp = fiber.stack.data();
        fiber.begin.uc_stack.ss_size = fiber.stack.size();
        fiber.begin.uc_link = nullptr;
        makecontext(&fiber.begin, enter, 0);
        fiber.entered = fiber.done = false;
        fiber.copies.clear();
        fiber.committed = 0;
    }
    bool left = true;
    for (volatile u32 round = 0; left; ++round) {
        for (volatile u32 i = 0; i < threads; ++i) resume(round % 2 ? threads - 1 - i : i);  // in either order
        left = false;
        for (Fiber const &fiber : host.fibers) left |= !fiber.done;
    }
}

inline u32 thread() { return host.thread; }
inline u32 block() { return host.block; }
inline u32 high_product(u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); }
inline u32 shifted(u32 low, u32 high, u32 bits) {
    return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> (bits & 31));
}
inline u32 shifted_out(u32 value, u32 bits) { return bits < 32 ? value << bits : 0; }
inline void barrier() { meet(); }
inline u32 shared_memory() { return 0; }
inline void keep(u32 &) {}

template <int element>
inline void read_shared(u32 address, u32 &low, u32 &high) {
    u64 value = 0;
    host.strays += address % element;
    std::memcpy(&value, host.shared + address, element);
    low = static_cast<u32>(value);
    high = static_cast<u32>(value >> 32);
}

inline void write_shared(u32 address, u32 value) {
    host.strays += address % 4;
    std::memcpy(host.shared + address, &value, 4);
}

inline Granule read_shared_granule(u32 address) {
    Granule found;
    host.strays += address % granule;
    std::memcpy(&found, host.shared + address, granule);
    return found;
}
inline void await_grid() {}
inline void launch_dependents() {}

// A granule may be read if any byte of it belongs to the tensor.
inline void check_read(u64 address) {
    Memory const &memory = host.source;
    bool holds = false;
    for (int i = 0; i < granule; ++i) {
        u64 const at = address + i - memory.start;
        holds |= at < memory.size && memory.belongs[at];
    }
    host.strays += !holds || address % granule;
}

inline Granule load_if(bool wanted, u64 address) {
    Granule found;
    std::memset(&found, 0xEE, granule);
    if (wanted) {
        check_read(address);
        std::memcpy(&found, reinterpret_cast<void const *>(address), granule);
    }
    return found;
}

inline void put(u64 address, void const *value, int bytes) {
    host.strays += address % bytes != 0;
    for (int i = 0; i < bytes; ++i) {
        u64 const at = address + i - host.target.start;
        if (at >= host.target.size || !host.target.belongs[at]) {
            ++host.strays;
        } else {
            ++host.target.written[at];
            reinterpret_cast<u8 *>(address)[i] = static_cast<u8 const *>(value)[i];
        }
    }
}

inline void store(u64 address, Granule const &value) {
    put(address, &value, granule);
}

template <int element>
inline void store_element(u64 address, u32 low, u32 high) {
    u64 const value = static_cast<u64>(high) << 32 | low;
    put(address, &value, element);
}

inline void copy_async(u32 offset, u64 from) {
    check_read(from);
    char *const to = host.shared + offset;
    host.strays += offset % granule;
    std::memset(to, 0xEE, granule);
    host.fibers[host.thread].copies.push_back({to, from});
}

inline void commit_copies() {
    Fiber &fiber = host.fibers[host.thread];
    fiber.committed = fiber.copies.size();
}

template <int pending>
inline void wait_copies() {
    static_assert(pending == 0);
    Fiber &fiber = host.fibers[host.thread];
    for (std::size_t i = 0; i < fiber.committed; ++i) {
        std::memcpy(fiber.copies[i].to, reinterpret_cast<void const *>(fiber.copies[i].from), granule);
    }
    fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + static_cast<std::ptrdiff_t>(fiber.committed));
    fiber.committed = 0;
}

}  // namespace relayout

extern "C" void watch(int which, unsigned long long start, unsigned long long size, void const *belongs,
                      void *written) {
    relayout::Memory &memory = which ? relayout::host.target : relayout::host.source;
    memory = {start, size, static_cast<relayout::u8 const *>(belongs), static_cast<relayout::u8 *>(written)};
}

template <typename... Parameters>
unsigned long long run_kernel(unsigned blocks, unsigned shared, void (*kernel)(Parameters...), Parameters... values) {
    using namespace relayout;
    host.strays = 0;
    host.kernel = [&] { kernel(values...); };
    for (u32 volatile i = 0; i < blocks; ++i) run_block(i, shared);
    return host.strays;
}
#endif
