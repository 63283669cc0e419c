#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rocedump.py FILE.pcap... [-q]  decode RoCEv2 in classic pcaps, one line a packet, and verify every ICRC.
-q: only the per-file summary.  Exit 1 if any ICRC is wrong."""
import sys, struct, zlib, ipaddress, collections
OPN = {0:'SEND_FIRST',1:'SEND_MIDDLE',2:'SEND_LAST',3:'SEND_LAST_IMM',4:'SEND_ONLY',5:'SEND_ONLY_IMM',6:'WRITE_FIRST',7:'WRITE_MIDDLE',8:'WRITE_LAST',9:'WRITE_LAST_IMM',
 10:'WRITE_ONLY',11:'WRITE_ONLY_IMM',12:'READ_REQ',13:'READ_RESP_FIRST',14:'READ_RESP_MIDDLE',15:'READ_RESP_LAST',16:'READ_RESP_ONLY',17:'ACK',18:'ATOMIC_ACK',19:'CMP_SWP',20:'FETCH_ADD',22:'SEND_LAST_INV',23:'SEND_ONLY_INV',28:'FLUSH',29:'ATOMIC_WRITE'}
TR = {0:'RC',1:'UC',2:'RD',3:'UD',4:'CNP',5:'XRC'}
RETH={6,10,11,12,29}; IMM={3,5,9,11}; AETH={13,15,16,17,18}; ATETH={19,20}; IETH={22,23}
ATTR={0x10:'REQ',0x11:'MRA',0x12:'REJ',0x13:'REP',0x14:'RTU',0x15:'DREQ',0x16:'DREP',0x17:'SIDR_REQ',0x18:'SIDR_REP',0x19:'LAP',0x1a:'APR'}
def icrc(ip, udp, pay):
    ip=bytearray(ip); udp=bytearray(udp); p=bytearray(pay)
    if ip[0]>>4==4: ip[1]=0xff; ip[8]=0xff; ip[10]=ip[11]=0xff
    else: ip[0]|=0x0f; ip[1]=ip[2]=ip[3]=0xff; ip[7]=0xff
    udp[6]=udp[7]=0xff; p[4]=0xff
    return zlib.crc32(b'\xff'*8+bytes(ip)+bytes(udp)+bytes(p))
def aeth(b):
    s=b[0]; msn=int.from_bytes(b[1:4],'big'); t=s>>5; v=s&31
    return {0:f'ACK credit={v}',1:f'RNR_NAK timer={v}',3:f'NAK code={v}({["PSN_SEQ","INV_REQ","REM_ACC","REM_OP","INV_RD"][v] if v<5 else "?"})'}.get(t,f'AETH?{s:#x}')+f' msn={msn}'
def mad(m):
    base,cls,clsv,meth,st,cs,tid,attr,_,mod=struct.unpack('>BBBBHHQHHI',m[:24]); a=ATTR.get(attr,hex(attr)) if cls==7 else hex(attr); d=m[24:]
    s=f'MAD base={base} class={cls} ver={clsv} method={meth:#x} status={st:#x} tid={tid:#018x} attr={attr:#x}({a}) mod={mod:#x}'
    if cls!=7: return s
    u=lambda o,n:int.from_bytes(d[o:o+n],'big')
    if attr==0x10:
        s+=(f' | lcid={u(0,4):#x} rsvd={u(4,4):#x} svcid={u(8,8):#018x} lguid={u(16,8):#018x} lqkey={u(28,4):#x} lqpn={u(32,3):#x} respres={d[35]} leecn={u(36,3):#x} initdepth={d[39]} remeecn={u(40,3):#x} '
            f'b43: remote_resp_to={d[43]>>3} transport={(d[43]>>1)&3} e2efc={d[43]&1} spsn={u(44,3):#x} b47: local_resp_to={d[47]>>3} retry={d[47]&7} pkey={u(48,2):#x} b50: mtu={d[50]>>4} rdc_exists={(d[50]>>3)&1} rnr_retry={d[50]&7} b51: maxcmretries={d[51]>>4} srq={(d[51]>>3)&1} ext_trans={d[51]&7} '
            f'pri: llid={u(52,2):#x} rlid={u(54,2):#x} lgid={ipaddress.ip_address(bytes(d[56:72]))} rgid={ipaddress.ip_address(bytes(d[72:88]))} flow={u(88,4)>>12:#x} b88..91={d[88:92].hex()} tclass={d[92]:#x} hop={d[93]} b94(sl/subnetlocal)={d[94]:#x} b95(ackto)={d[95]:#x} alt={d[96:140].strip(bytes(1)).hex() or "zero"} '
            f'priv[92]: cmahdr ver={d[140]>>4}.{d[140]&15} ipv={d[141]>>4} port={u(142,2)} src={d[144:160].hex()} dst={d[160:176].hex()} user={d[176:232].rstrip(bytes(1)).hex() or "zero"}')
    elif attr==0x13:
        s+=(f' | lcid={u(0,4):#x} rcid={u(4,4):#x} lqkey={u(8,4):#x} lqpn={u(12,3):#x} leecn={u(16,3):#x} spsn={u(20,3):#x} b23={d[23]:#x} respres={d[24]} initdepth={d[25]} b26: ackdelay={d[26]>>3} failover={(d[26]>>1)&3} e2efc={d[26]&1} b27: rnr_retry={d[27]>>5} srq={(d[27]>>4)&1} low={d[27]&15} lguid={u(28,8):#018x} priv={d[36:232].rstrip(bytes(1)).hex() or "zero"}')
    elif attr==0x14: s+=f' | lcid={u(0,4):#x} rcid={u(4,4):#x} priv={d[8:232].rstrip(bytes(1)).hex() or "zero"}'
    elif attr==0x12: s+=f' | lcid={u(0,4):#x} rcid={u(4,4):#x} msg_rejected={d[8]>>6} infolen={d[9]>>1} reason={u(10,2)} ari={d[12:84].rstrip(bytes(1)).hex() or "zero"} priv={d[84:232].rstrip(bytes(1)).hex() or "zero"}'
    elif attr==0x15: s+=f' | lcid={u(0,4):#x} rcid={u(4,4):#x} rqpn={u(8,3):#x} b11={d[11]:#x} priv={d[12:232].rstrip(bytes(1)).hex() or "zero"}'
    elif attr==0x16: s+=f' | lcid={u(0,4):#x} rcid={u(4,4):#x} priv={d[8:232].rstrip(bytes(1)).hex() or "zero"}'
    elif attr==0x17: s+=f' | reqid={u(0,4):#x} pkey={u(4,2):#x} rsvd={u(6,2):#x} svcid={u(8,8):#018x} priv={d[16:232].rstrip(bytes(1)).hex() or "zero"}'
    elif attr==0x18: s+=f' | reqid={u(0,4):#x} status={d[4]} infolen={d[5]} rsvd={u(6,2):#x} qpn={u(8,3):#x} b11={d[11]:#x} svcid={u(12,8):#018x} qkey={u(20,4):#x} addinfo={d[24:96].rstrip(bytes(1)).hex() or "zero"} priv={d[96:232].rstrip(bytes(1)).hex() or "zero"}'
    return s
def main():
    q='-q' in sys.argv; bad=0; H=collections.defaultdict(collections.Counter)
    for fn in [a for a in sys.argv[1:] if not a.startswith('-')]:
        b=open(fn,'rb').read(); 
        mg=struct.unpack('<I',b[:4])[0]; assert mg in (0xa1b2c3d4,0xa1b23c4d),fn; assert struct.unpack('<I',b[20:24])[0]==1
        o=24;n=0;ok=0;oth=0;ops=collections.Counter();t0=None
        if not q: print('==',fn)
        while o<len(b):
            ts,us,cl,ol=struct.unpack('<IIII',b[o:o+16]); f=b[o+16:o+16+cl]; o+=16+cl; n+=1; t=ts+us*1e-6; t0=t0 or t
            et=struct.unpack('>H',f[12:14])[0]
            if et==0x800: ih=(f[14]&15)*4; ip=f[14:14+ih]; pr=ip[9]; end=14+struct.unpack('>H',ip[2:4])[0]; sa,da=[ipaddress.ip_address(bytes(ip[i:i+4])) for i in (12,16)]; ipd=f'tos={ip[1]:#x} id={struct.unpack(">H",ip[4:6])[0]:#06x} frag={struct.unpack(">H",ip[6:8])[0]:#06x} ttl={ip[8]}'; l4=14+ih
            elif et==0x86dd: ip=f[14:54]; pr=ip[6]; end=54+struct.unpack('>H',ip[4:6])[0]; sa,da=[ipaddress.ip_address(bytes(ip[i:i+16])) for i in (8,24)]; w=struct.unpack('>I',ip[:4])[0]; ipd=f'tc={(w>>20)&255:#x} flow={w&0xfffff:#x} hop={ip[7]}'; l4=54
            else: oth+=1; continue
            if pr!=17 or struct.unpack('>H',f[l4+2:l4+4])[0]!=4791: oth+=1; (q or print(f'{t-t0:9.6f} {sa}>{da} proto {pr}')); continue
            udp=f[l4:l4+8]; sp,dp,ul,uc=struct.unpack('>HHHH',udp); p=f[l4+8:end]
            c=icrc(ip,udp,p[:-4]); good=p[-4:]==struct.pack('<I',c); ok+=good; bad+=not good
            op=p[0]; b1=p[1]; pk=struct.unpack('>H',p[2:4])[0]; r4=p[4]; qp=int.from_bytes(p[5:8],'big'); a=p[8]>>7; psn=int.from_bytes(p[9:12],'big'); pad=(b1>>4)&3
            tr=TR.get(op>>5,'?'); o5=op&31; nm=OPN.get(o5,hex(o5)); x=p[12:-4]; e=''
            if tr=='UD': e+=f' qkey={struct.unpack(">I",x[:4])[0]:#x} sqp={int.from_bytes(x[5:8],"big"):#x}'; x=x[8:]
            if o5 in RETH and tr!='UD': va,rk,dl=struct.unpack('>QII',x[:16]); e+=f' va={va:#x} rkey={rk:#x} dmalen={dl}'; x=x[16:]
            if o5 in ATETH: va,rk,sw,cm=struct.unpack('>QIQQ',x[:28]); e+=f' va={va:#x} rkey={rk:#x} swap_add={sw:#x} cmp={cm:#x}'; x=x[28:]
            if o5 in AETH and tr=='RC': e+=' '+aeth(x[:4]); x=x[4:]
            if o5==18: e+=f' orig={int.from_bytes(x[:8],"big"):#x}'; x=x[8:]
            if o5 in IMM: e+=f' imm={x[:4].hex()}'; x=x[4:]
            if o5 in IETH: e+=f' ieth={x[:4].hex()}'; x=x[4:]
            pl=len(x)-pad; ops[tr+'_'+nm]+=1
            if tr=='UD' and qp==1 and pl>=256: e+='\n             '+mad(x); ops['MAD '+(ATTR.get(struct.unpack('>H',x[16:18])[0],'?'))]+=1
            k=(et,sp); H['udp sport'][sp]+=1; H['udp csum'][(hex(et),uc)]+=1; H['pkey'][pk]+=1; H['bth byte4'][r4]+=1; H['bth byte8 low7'][p[8]&0x7f]+=1; H['tver'][b1&15]+=1; H['migreq'][(b1>>6)&1]+=1; H['pad bytes nonzero'][bool(pad and any(x[pl:]))]+=1
            if et==0x800: H['v4 ttl'][ip[8]]+=1; H['v4 tos'][ip[1]]+=1; H['v4 frag'][struct.unpack('>H',ip[6:8])[0]]+=1; H['v4 ihl'][ip[0]]+=1
            else: H['v6 hop'][ip[7]]+=1; H['v6 w0'][hex(w)]+=1
            if cl>end: H['eth trailer bytes'][cl-end]+=1
            if not q: print(f'{t-t0:9.6f} {sa}>{da} {ipd} sport={sp} csum={uc:#x} | {tr}_{nm} dqp={qp:#x} psn={psn:#08x} A={a} SE={b1>>7} M={(b1>>6)&1} pad={pad} pkey={pk:#x}{e} len={pl}{"" if good else " ICRC BAD"}')
        print(f'## {fn.split("/")[-1]}: {n} packets, {ok} good ICRC, {n-ok-oth} bad, {oth} other; '+', '.join(f'{k} {v}' for k,v in ops.items()))
    if '-s' in sys.argv:
        for k in H: print(k, dict(H[k].most_common(12)))
    sys.exit(bad>0)
if __name__=='__main__': main()
