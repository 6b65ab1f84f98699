// Multiplies M rows of ones by 512 columns of ones for each M of the command line, by one emitted file; K is 512.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" std::size_t workspace_bytes(std::int64_t M);
extern "C" int run(void const *a, void const *b, void *c, void *workspace, std::int64_t M, cudaStream_t stream);
extern "C" char const *message(int code);

int main(int count, char **given) {
    constexpr std::int64_t most = 8192, n = 512, k = 512;  // memory for the largest M, as a server has it
    std::vector<std::uint16_t> const ones(most * k, 0x3f80);  // 1.0 in bf16
    std::vector<std::uint16_t> found(most * n);
    void *a, *b, *c, *workspace;
    if (int code = cudaMalloc(&a, ones.size() * 2)) return std::printf("%s\n", message(code)), 1;
    cudaMalloc(&b, n * k * 2), cudaMalloc(&c, found.size() * 2), cudaMalloc(&workspace, workspace_bytes(most) + 1);
    cudaMemcpy(a, ones.data(), ones.size() * 2, cudaMemcpyHostToDevice);
    cudaMemcpy(b, ones.data(), n * k * 2, cudaMemcpyHostToDevice);
    for (int one = 1; one < count; ++one) {
        std::int64_t const m = std::atoll(given[one]);
        cudaMemset(c, 0, found.size() * 2);
        if (int code = run(a, b, c, workspace, m, nullptr)) {
            std::printf("M = %lld is refused: %s\n", static_cast<long long>(m), message(code));
            continue;
        }
        if (int code = cudaMemcpy(found.data(), c, found.size() * 2, cudaMemcpyDeviceToHost))
            return std::printf("%s\n", message(code)), 1;
        for (std::int64_t i = 0; i < most * n; ++i)  // 512.0 in the rows that there are, nothing behind them
            if (found[i] != (i < m * n ? 0x4400 : 0)) return std::printf("M = %lld is wrong\n", (long long)m), 1;
        std::printf("M = %lld: right in every element\n", static_cast<long long>(m));
    }
}
