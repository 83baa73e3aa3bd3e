// An ASP.NET Core process with a past: objects, native memory, threads; half
// freed. Serves on the port given; "ready" and "pong" as the other programs.
using System.Runtime.InteropServices;

var app = WebApplication.CreateSlimBuilder(args).Build();
app.Logger.LogInformation("port {port}", args[0]);
app.MapGet("/orders/{n:int}", (int n) => Enumerable.Range(0, n)
    .Select(i => new { Id = i, Name = $"order {i}", Total = i * 1.25m }));
app.Urls.Add($"http://127.0.0.1:{args[0]}");
await app.StartAsync();

var keep = new Dictionary<string, byte[]>();
for (int i = 0; i < 100_000; i++) keep[$"key-{i}"] = new byte[i % 701];
for (int i = 0; i < 100_000; i += 2) keep.Remove($"key-{i}");

var native = new List<IntPtr>();
for (int i = 0; i < 20_000; i++)
{
    IntPtr block = Marshal.AllocHGlobal(400 + i % 300);
    for (int at = 0; at < 400; at += 8) Marshal.WriteInt64(block, at, i);
    native.Add(block);
}
for (int i = 0; i < native.Count; i += 2) Marshal.FreeHGlobal(native[i]);

using var end = new ManualResetEventSlim();
for (int i = 0; i < 16; i++)
{
    var thread = new Thread(() => { var own = new byte[50_000]; end.Wait(); GC.KeepAlive(own); })
    { IsBackground = true };
    thread.Start();
}

using (var client = new HttpClient())
{
    for (int i = 0; i < 200; i++)
        await client.GetByteArrayAsync($"http://127.0.0.1:{args[0]}/orders/300");
}

Console.WriteLine("ready");
while (Console.ReadLine() is not null) Console.WriteLine("pong");
GC.KeepAlive(keep);
GC.KeepAlive(native);
await app.StopAsync();
